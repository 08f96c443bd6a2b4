"""The loop: minimise a method's objective over a data set. It knows no method by name."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from evidentia.core.opinion import Opinion
from evidentia.errors import DataError, EvidentiaWarning, TrainingError
from evidentia.methods import Batch, Method
from evidentia.nets import Standardize
from evidentia.training.augment import augment
from evidentia.training.run import Best, Run
from evidentia.training.runtime import make_fabric
from evidentia.training.settings import TrainingSettings

if TYPE_CHECKING:
    from lightning_fabric import Fabric

STUCK_EPOCHS, STUCK_STEPS = 3, 100  # after so many of both, a network should be better than chance

Metrics = dict[str, float]


@dataclass(frozen=True)
class Samples:
    """Resident in memory: raw inputs (N, ...), labels (N,), a weight for each sample (N,) or None."""

    inputs: Tensor
    labels: Tensor
    weights: Tensor | None = None

    def __post_init__(self) -> None:
        if not len(self.inputs) == len(self.labels) > 0:
            raise DataError(
                f"a training needs samples, got {len(self.inputs)} with {len(self.labels)} labels"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, index: Tensor) -> Samples:
        """The samples at these positions."""
        weights = None if self.weights is None else self.weights[index]
        return Samples(self.inputs[index], self.labels[index], weights)


class Totals:
    """Sums over an epoch, kept on the device so that nothing waits for them."""

    def __init__(self) -> None:
        self.count = 0
        self.sums = torch.zeros(3)  # loss, correct, uncertainty
        self.most_evidence: Tensor | None = None

    def add(self, method: Method, loss: Tensor, logits: Tensor, labels: Tensor) -> None:
        """One batch."""
        prediction = method.read(logits.detach())
        correct = (prediction.labels == labels).sum()
        self.count += len(labels)
        batch = torch.stack([loss.detach() * len(labels), correct, prediction.uncertainty.sum()])
        self.sums = self.sums.to(batch.device) + batch
        if isinstance(prediction, Opinion):
            most = prediction.evidence.amax(0)
            self.most_evidence = most if self.most_evidence is None else self.most_evidence.maximum(most)

    def means(self, fabric: Fabric) -> Metrics:
        """Loss, accuracy and mean uncertainty, over all processes."""
        sums = torch.cat([self.sums, self.sums.new_tensor([self.count])]).to(fabric.device)
        summed = torch.as_tensor(fabric.all_reduce(sums, reduce_op="sum"))
        loss, correct, uncertainty, count = summed.tolist()
        return {"loss": loss / count, "accuracy": correct / count, "uncertainty": uncertainty / count}


def fit(
    method: Method,
    module: nn.Module,
    standardize: Standardize,
    train: Samples,
    settings: TrainingSettings,
    *,
    held_out: Samples | None = None,
    run: Run | None = None,
    report: Callable[[Metrics], None] | None = None,
) -> list[Metrics]:
    """Train the module in place, to the end or on from where the run stopped; the metrics of each epoch."""
    if settings.patience is not None and held_out is None:
        raise TrainingError("patience needs held-out samples to watch; give some, or set patience to None")
    loop = Loop(method, module, standardize, settings)
    history, best = run.resume(loop.module, loop.optimizer) if run else ([], Best())
    with generators_kept():
        while len(history) < settings.epochs and not best.is_enough(len(history), settings.patience):
            history.append({"epoch": len(history) + 1, **loop.epoch(train, len(history))})
            if held_out is not None:
                history[-1] |= {f"held_out_{name}": value for name, value in loop.evaluate(held_out).items()}
                best.offer(history[-1]["held_out_loss"], len(history), loop.module)
            warn_if_stuck(history, math.ceil(len(train) / settings.batch_size), train.labels)
            if run and loop.fabric.is_global_zero:
                run.save(loop.module, loop.optimizer, history, best)
            if report:
                report(history[-1])
    if settings.patience is not None:
        best.restore(loop.module)
    module.eval()
    return history


@contextmanager
def generators_kept() -> Iterator[None]:
    """Training seeds torch's own generators, for dropout; the caller finds them as they were."""
    with torch.random.fork_rng():
        yield


class Loop:
    """A network on its device with its optimiser, for passes over data."""

    def __init__(
        self, method: Method, module: nn.Module, standardize: Standardize, settings: TrainingSettings
    ) -> None:
        self.method, self.standardize, self.settings = method, standardize, settings
        self.fabric = make_fabric(settings.device, settings.precision)
        self.module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimizer = torch.optim.Adam(module.parameters(), lr=settings.learning_rate, fused=True)
        self._wrapped, self._stepper = self.fabric.setup(self.module, self.optimizer)

    def epoch(self, train: Samples, number: int) -> Metrics:
        """One pass over the data, in an order of its own."""
        start, totals, fabric = time.perf_counter(), Totals(), self.fabric
        self._wrapped.train()
        seed = self.settings.seed * 1_000_003 + number
        torch.manual_seed(seed * 1_009 + fabric.global_rank)  # for dropout, which takes no generator
        order = torch.Generator().manual_seed(seed)
        batches = torch.split(torch.randperm(len(train), generator=order), self.settings.batch_size)
        for step, index in enumerate(batches):
            epoch = number + step / len(batches)
            share = index[fabric.global_rank :: fabric.world_size]
            mine = train.batch(share if len(share) else index[:1])  # all must take part in every step
            if self.settings.shift or self.settings.flip:
                images = augment(mine.inputs, self.settings.shift, self.settings.flip, order)
                mine = Samples(images, mine.labels, mine.weights)
            batch = self._prepared(mine)
            loss, logits = self.method.objective(self._wrapped, batch, epoch, len(train))
            # The processes' shares are nearly equal: their mean becomes that of the whole batch.
            self._step(loss * (len(share) * fabric.world_size / len(index)), epoch)
            if len(share):
                totals.add(self.method, loss, logits, batch.labels)
        metrics = totals.means(fabric)
        require_finite(metrics["loss"], number)
        warn_of_dead_evidence(totals.most_evidence, number)
        return metrics | {"seconds": time.perf_counter() - start}

    @torch.no_grad()
    def evaluate(self, samples: Samples) -> Metrics:
        """Loss, accuracy and mean uncertainty on held-out samples, with the loss of the training's end."""
        self._wrapped.eval()
        totals, end = Totals(), float(self.settings.epochs)
        share = torch.arange(self.fabric.global_rank, len(samples), self.fabric.world_size)
        for index in torch.split(share, 4 * self.settings.batch_size) if len(share) else ():
            batch = self._prepared(samples.batch(index))
            loss, logits = self.method.objective(self._wrapped, batch, end, len(samples))
            totals.add(self.method, loss, logits, batch.labels)
        return totals.means(self.fabric)

    def _step(self, loss: Tensor, epoch: float) -> None:
        for group in self._stepper.param_groups:
            group["lr"] = rate_at(epoch, self.settings)
        self._stepper.zero_grad()
        self.fabric.backward(loss)
        self._stepper.step()

    def _prepared(self, samples: Samples) -> Batch:
        inputs = as_input(self.fabric.to_device(samples.inputs), self.standardize)
        weights = None if samples.weights is None else self.fabric.to_device(samples.weights)
        return Batch(inputs, self.fabric.to_device(samples.labels), weights)


def as_input(raw: Tensor, standardize: Standardize) -> Tensor:
    """Raw inputs on their device as the network takes them; images with the channels last in memory."""
    inputs = standardize(raw)
    return inputs.contiguous(memory_format=torch.channels_last) if inputs.ndim == 4 else inputs


def rate_at(epoch: float, settings: TrainingSettings) -> float:
    """The learning rate at a (fractional) epoch: constant, or falling to zero like a cosine."""
    if settings.schedule == "constant":
        return settings.learning_rate
    return settings.learning_rate * 0.5 * (1 + math.cos(math.pi * epoch / settings.epochs))


def require_finite(loss: float, epoch: int) -> None:
    """A loss that is no number can't be trained on."""
    if not math.isfinite(loss):
        raise TrainingError(f"the loss became {loss} in epoch {epoch + 1}; lower the learning rate")


def warn_of_dead_evidence(most: Tensor | None, epoch: int) -> None:
    """Say it when a class had no evidence on any input: its outputs get no gradient any more."""
    dead = [] if most is None else (most == 0).nonzero().flatten().tolist()
    if dead:
        names = ", ".join(str(one) for one in dead[:5]) + (", ..." if len(dead) > 5 else "")
        warnings.warn(
            f"class {names}: no evidence on any input of epoch {epoch + 1}, so its outputs are dead and will "
            "not learn; use evidence='exp', or another seed",
            EvidentiaWarning,
            stacklevel=4,
        )


def warn_if_stuck(history: list[Metrics], steps: int, labels: Tensor) -> None:
    """Say it when, after some epochs of so many steps, naming the commonest class would do as well."""
    due = max(STUCK_EPOCHS, math.ceil(STUCK_STEPS / steps))
    commonest = float(labels.bincount().max()) / len(labels)
    margin = 3 * math.sqrt(commonest * (1 - commonest) / len(labels))
    if len(history) == due and history[-1]["accuracy"] <= commonest + margin:
        warnings.warn(
            f"after {due} epochs the accuracy is {history[-1]['accuracy']:.3f}, as good as guessing; "
            "lower the learning rate or, for edl, divergence_weight",
            EvidentiaWarning,
            stacklevel=3,
        )
