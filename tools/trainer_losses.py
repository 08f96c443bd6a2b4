"""Whether the Trainer of transformers, with our loss, learns what our own loop learns: the losses of steps.

python tools/trainer_losses.py small --weights shared       a small model, from its configuration
python tools/trainer_losses.py minilm --questions 501 --weights shared     all of MiniLM, from its weights
python tools/trainer_losses.py small --precision float64

Both are given the same first weights and the same batches of CLINC150, two epochs long, four batches a step;
without dropout, which both would draw on their own. With `--weights shared` our loop takes over the weights
that the Trainer has at the beginning of each step, so that the losses of a step are of the same weights. With
`--weights own` both go through all of it on their own: in float32 what they round otherwise grows with the
steps, in float64 it stays out of sight. docs/decisions/0031 has the numbers.
"""

import argparse
import copy
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from queue import Queue
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Sampler
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
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
LONGEST_WAIT = 600  # seconds, for the other's step
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
    parser.add_argument("--precision", choices=("float64", "float32"), default="float32")
    parser.add_argument("--weights", choices=("own", "shared"), default="own")
    options = parser.parse_args()
    questions = load("clinc150", "train")
    num_classes = len(questions.classes)
    taken = torch.randperm(len(questions), generator=torch.Generator().manual_seed(0))[: options.questions]
    preprocess = TextPreprocess(MiniLMSpec().tokenizer_json(), MAX_LENGTH)
    samples = Samples(preprocess.inputs_of(questions)[taken], questions.labels[taken])
    model = make_model(options.model, num_classes)
    settings = replace(SETTINGS, learning_rate=RATES[options.model], precision=options.precision)
    print(
        f"{len(samples):,} questions of {num_classes} intents, {options.model}, {options.precision}",
        flush=True,
    )
    start = time.process_time()
    if options.weights == "shared":
        handover = Handover()
        ours, theirs = losses_side_by_side(model, samples, preprocess, settings, num_classes, handover)
    else:
        ours = loop_losses(copy.deepcopy(model), samples, preprocess, settings)
        theirs = trainer_losses(model, samples, settings, num_classes)
    print(f"our loop: {len(ours)} steps, {ours[0]:.5f} to {ours[-1]:.5f}")
    print(
        f"Trainer:  {len(theirs)} steps, {theirs[0]:.5f} to {theirs[-1]:.5f}; {seconds_since(start)} for both"
    )
    differences = (torch.tensor(ours, dtype=torch.float64) - torch.tensor(theirs, dtype=torch.float64)).abs()
    far = (differences > TOLERANCE).nonzero().flatten().tolist()
    beyond = f"from step {far[0] + 1} on above {TOLERANCE:g}" if far else f"none above {TOLERANCE:g}"
    print(f"largest difference of a step's loss: {float(differences.max()):.2e}; {beyond}")
    if options.weights == "shared":
        print(f"largest difference of a weight after one step: {handover.largest_difference:.2e}")


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


class Handover:
    """Brings the weights of the Trainer, which runs in one thread, to our loop, which runs in another."""

    def __init__(self) -> None:
        self.largest_difference = 0.0  # between the weights that each has made of the same ones in a step
        self._offered: Queue[dict[str, Tensor]] = Queue(1)
        self._taken: Queue[None] = Queue(1)
        self.count = 0  # of steps

    def offer(self, model: nn.Module) -> None:
        """Give the weights that a step begins with, and wait until they are copied."""
        self._offered.put(model.state_dict(), timeout=LONGEST_WAIT)
        self._taken.get(timeout=LONGEST_WAIT)

    def take_into(self, model: nn.Module) -> None:
        """Begin a step with the weights of the Trainer."""
        theirs = self._offered.get(timeout=LONGEST_WAIT)
        for name, ours in model.state_dict().items():
            if self.count and ours.is_floating_point():
                difference = float((ours - theirs[name]).abs().max())
                self.largest_difference = max(self.largest_difference, difference)
        model.load_state_dict(theirs)
        self.count += 1
        self._taken.put(None)


class OfferWeights(TrainerCallback):
    """Offers the weights of a Trainer at the beginning of each of its steps."""

    def __init__(self, handover: Handover) -> None:
        self.handover = handover

    def on_step_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Before the first batch of a step."""
        self.handover.offer(others["model"])


def losses_side_by_side(
    model: Any,
    samples: Samples,
    preprocess: TextPreprocess,
    settings: TrainingSettings,
    num_classes: int,
    handover: Handover,
    folder: str = "trainer",
) -> tuple[list[float], list[float]]:
    """The losses of the steps of our loop and of the Trainer, each step from the weights of the Trainer."""
    with ThreadPoolExecutor(1) as beside:
        ours = beside.submit(loop_losses, copy.deepcopy(model), samples, preprocess, settings, handover)
        theirs = trainer_losses(model, samples, settings, num_classes, folder, handover)
        return ours.result(), theirs


def loop_losses(
    model: Any,
    samples: Samples,
    preprocess: TextPreprocess,
    settings: TrainingSettings,
    handover: Handover | None = None,
) -> list[float]:
    """The losses of the steps of our own loop, from weights of its own or from those that are handed over."""
    found: list[tuple[float, int]] = []

    class Recorded(EDL):
        def objective(
            self, module: nn.Module, batch: Batch, epoch: float, num_train: int
        ) -> tuple[Tensor, Tensor]:
            if handover is not None and len(found) % settings.accumulate == 0:
                handover.take_into(model)
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
    model: Any,
    samples: Samples,
    settings: TrainingSettings,
    num_classes: int,
    folder: str = "trainer",
    handover: Handover | None = None,
) -> list[float]:
    """The losses of the steps of the Trainer; its weights are handed over where somebody takes them."""
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
    callbacks: list[TrainerCallback] = [AnnealingCallback(loss)]
    if handover is not None:
        callbacks.append(OfferWeights(handover))
    inputs = samples.read()
    rows = [{"input_ids": ids, "labels": label} for ids, label in zip(inputs, samples.labels, strict=True)]
    trainer = TrainerInOrder(
        model=model,
        args=arguments,
        train_dataset=rows,
        data_collator=collate,
        compute_loss_func=loss,
        callbacks=callbacks,
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
