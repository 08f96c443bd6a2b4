"""Whether the Trainer of transformers, with our loss, learns what our own loop learns: the losses of steps.

python tools/trainer_losses.py small              a small model of transformers from its configuration
python tools/trainer_losses.py minilm             all of MiniLM, from its weights
python tools/trainer_losses.py minilm --questions 2000
python tools/trainer_losses.py small --precision float32

Both are given the same first weights and the same batches of CLINC150, two epochs long, four batches a step,
and go through all of it on their own: no weights are exchanged. Without dropout, which both would draw on
their own, and in float64, so that sums in another order do not count. docs/decisions/0031 has the numbers.
"""

import argparse
import copy
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Sampler
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
from transformers.utils import logging

from nescio import EDL, EvidentialLoss, TrainingSettings
from nescio.data import load
from nescio.data.preprocess import TextPreprocess
from nescio.encoders._texts import token_mask
from nescio.encoders.minilm import MiniLMSpec
from nescio.integrations.transformers import AnnealingCallback, TrainerLoss, minilm_classifier
from nescio.methods import Batch
from nescio.training import Samples
from nescio.training._batches import EpochBatches, ProcessPlace
from nescio.training._loop import Loop

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
}
NO_DROPOUT: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
TOLERANCE = 1e-5
MAX_LENGTH = 40  # tokens of a question; the longest has 36
RATES = {"small": 2e-3, "minilm": 2e-4}
SETTINGS = TrainingSettings(
    epochs=2,
    batch_size=16,
    accumulate=4,
    learning_rate=1e-4,
    schedule="constant",
    optimizer="adamw",
    weight_decay=0.0,
    warmup=0.0,
    clip_norm=1.0,
    encoder_rate=1.0,
    device="cpu",
    precision="float32",
)


def main() -> None:
    """Train both ways, print the largest difference of the losses."""
    parser = argparse.ArgumentParser(description="Compare the Trainer's losses with those of our own loop.")
    parser.add_argument("model", choices=("small", "minilm"))
    parser.add_argument("--questions", type=int, help="how many of the 15,000 to take; default: all")
    parser.add_argument("--precision", choices=("float64", "float32"), default="float64")
    options = parser.parse_args()
    questions = load("clinc150", "train")
    taken = torch.randperm(len(questions), generator=torch.Generator().manual_seed(0))[: options.questions]
    preprocess = TextPreprocess(MiniLMSpec().tokenizer_json(), MAX_LENGTH)
    samples = Samples(preprocess.inputs_of(questions)[taken], questions.labels[taken])
    model = make_model(options.model, len(questions.classes))
    counts = f"{len(samples):,} questions of {len(questions.classes)} intents"
    print(f"{counts}, {options.model}, {options.precision}", flush=True)
    start = time.process_time()
    settings = replace(SETTINGS, learning_rate=RATES[options.model], precision=options.precision)
    ours = loop_losses(copy.deepcopy(model), samples, preprocess, settings)
    print(f"our loop: {len(ours)} steps, {ours[0]:.5f} to {ours[-1]:.5f}, {seconds_since(start)}", flush=True)
    start = time.process_time()
    theirs = trainer_losses(model, samples, settings, len(questions.classes))
    print(f"Trainer:  {len(theirs)} steps, {theirs[0]:.5f} to {theirs[-1]:.5f}, {seconds_since(start)}")
    differences = (torch.tensor(ours, dtype=torch.float64) - torch.tensor(theirs, dtype=torch.float64)).abs()
    far = (differences > TOLERANCE).nonzero().flatten().tolist()
    beyond = f"from step {far[0] + 1} on above {TOLERANCE:g}" if far else f"none above {TOLERANCE:g}"
    print(f"largest difference of a step's loss: {float(differences.max()):.2e}; {beyond}")


def seconds_since(start: float) -> str:
    """In the time of the processor."""
    return f"{time.process_time() - start:.0f} seconds"


def make_model(name: str, num_classes: int) -> Any:
    """A model of transformers with its first weights."""
    torch.manual_seed(0)
    if name == "minilm":
        return minilm_classifier(num_classes, **NO_DROPOUT)
    vocabulary = 30_522  # of MiniLM's tokenizer
    config = BertConfig(**{**SMALL, **NO_DROPOUT, "vocab_size": vocabulary, "num_labels": num_classes})
    return BertForSequenceClassification(config)  # type: ignore[no-untyped-call]


class FromIds(nn.Module):
    """A model of transformers as our loop takes networks: ids (N, L) to logits (N, K)."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        """(N, L) to (N, K)."""
        logits: Tensor = self.model(**trimmed(ids)).logits
        return logits


def trimmed(ids: Tensor) -> dict[str, Tensor]:
    """What a model takes of ids (N, L): places that are empty in all texts are left out."""
    mask = token_mask(ids)
    longest = int(mask.sum(1).max())
    return {"input_ids": ids[:, :longest], "attention_mask": mask[:, :longest].long()}


def loop_losses(
    model: Any, samples: Samples, preprocess: TextPreprocess, settings: TrainingSettings
) -> list[float]:
    """The losses of the steps of our own loop."""
    found: list[tuple[float, int]] = []

    class Recorded(EDL):
        def objective(
            self, module: nn.Module, batch: Batch, epoch: float, num_train: int
        ) -> tuple[Tensor, Tensor]:
            loss, logits = super().objective(module, batch, epoch, num_train)
            found.append((float(loss.detach()), len(batch.labels)))
            return loss, logits

    network = FromIds(model)
    if settings.precision == "float64":
        network.double()
    losses: list[float] = []
    assert settings.epochs is not None
    with computing_in(settings.precision):
        loop = Loop(Recorded(), network, preprocess, settings)
        for number in range(settings.epochs):
            found.clear()
            loop.epoch(samples, number)
            losses += of_steps(found, settings.accumulate)
    return losses


@contextmanager
def computing_in(precision: str) -> Iterator[None]:
    """With this type as torch's default: Fabric rounds what a network gives to the default type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, precision))
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def of_steps(found: Sequence[tuple[float, int]], accumulate: int) -> list[float]:
    """The mean loss of each step, by the mean losses of its batches and how many samples they have."""
    losses = []
    for first in range(0, len(found), accumulate):
        step = found[first : first + accumulate]
        total = sum(loss * count for loss, count in step)
        losses.append(total / sum(count for _, count in step))
    return losses


class InOrder(Sampler[int]):
    """The places of samples, in an order for each epoch."""

    def __init__(self, orders: Sequence[Tensor]) -> None:
        self.orders = list(orders)
        self.epochs = iter(self.orders)

    def __len__(self) -> int:
        return len(self.orders[0])

    def __iter__(self) -> Iterator[int]:
        return iter(next(self.epochs).tolist())


def orders_of(samples: Samples, settings: TrainingSettings) -> list[Tensor]:
    """The orders in which our loop takes the samples."""
    orders = []
    assert settings.epochs is not None
    for number in range(settings.epochs):
        generator = torch.Generator().manual_seed(settings.seed * 1_000_003 + number)
        batches = EpochBatches(samples, settings, generator, ProcessPlace())
        orders.append(torch.cat(batches._batches))
    return orders


class TrainerInOrder(Trainer):
    """A Trainer that takes its samples in the orders of our loop."""

    orders: Sequence[Tensor] = ()

    def _get_train_sampler(self, train_dataset: Any = None) -> InOrder:
        return InOrder(self.orders)


class RecordedLoss(TrainerLoss):
    """The loss, and what it was for each batch of the training."""

    def __init__(self, loss: EvidentialLoss) -> None:
        super().__init__(loss)
        self.found: list[float] = []

    def __call__(self, outputs: Any, labels: Tensor | None, num_items_in_batch: Any = None) -> Tensor:
        """The loss of a batch."""
        loss = super().__call__(outputs, labels, num_items_in_batch)
        if torch.is_grad_enabled():
            self.found.append(float(loss.detach()))
        return loss


def collate(rows: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """A batch of questions."""
    ids = torch.stack([row["input_ids"] for row in rows])
    return {**trimmed(ids), "labels": torch.stack([row["labels"] for row in rows])}


def trainer_losses(
    model: Any, samples: Samples, settings: TrainingSettings, num_classes: int, folder: str = "trainer"
) -> list[float]:
    """The losses of the steps of the Trainer."""
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    if settings.precision == "float64":
        model = model.double()
    loss = RecordedLoss(EDL().loss_for(num_classes))
    assert settings.epochs is not None
    assert settings.batch_size is not None
    assert settings.learning_rate is not None
    arguments = TrainingArguments(
        output_dir=folder,
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.accumulate,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant",
        max_grad_norm=settings.clip_norm or 0.0,
        weight_decay=0.0,
        use_cpu=True,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    inputs = samples.read()
    rows = [{"input_ids": ids, "labels": label} for ids, label in zip(inputs, samples.labels, strict=True)]
    trainer = TrainerInOrder(
        model=model,
        args=arguments,
        train_dataset=rows,
        data_collator=collate,
        compute_loss_func=loss,
        callbacks=[AnnealingCallback(loss)],
    )
    trainer.orders = orders_of(samples, settings)
    with computing_in(settings.precision):
        trainer.train()
    batches = -(-len(samples) // settings.batch_size)
    losses = []
    for epoch in range(settings.epochs):
        of_epoch = loss.found[epoch * batches : (epoch + 1) * batches]
        # Each is a part of its step's loss already.
        losses += [sum(of_epoch[i : i + settings.accumulate]) for i in range(0, batches, settings.accumulate)]
    return losses


if __name__ == "__main__":
    main()
