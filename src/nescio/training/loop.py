"""The loop: minimise a method's objective over a data set. It knows no method by name."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from nescio.data.preprocess import Preprocess, input_range_of
from nescio.errors import DataError, TrainingError
from nescio.methods import Batch, Method
from nescio.opinions.opinion import Opinion
from nescio.training.augment import draw_moves, moved
from nescio.training.diagnostics import dead_classes, require_finite, warn_if_stuck, warn_of_dead_evidence
from nescio.training.run import Metrics, Run, State
from nescio.training.runtime import make_fabric
from nescio.training.second_stage import fit_second_stage
from nescio.training.settings import LARGEST_SEED, TrainingSettings

if TYPE_CHECKING:
    from lightning_fabric import Fabric

TINY = 1e-300
DENORMAL_BELOW, FLUSH_STEPS = 1e-30, 20
MEMBER_SEED_STEP = 10_007  # members of an ensemble are trained with seeds this far apart


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

    @cached_property
    def input_range(self) -> Tensor:
        """From the least to the greatest input in each channel, (C,)."""
        return input_range_of(self.inputs)

    @property
    def mass(self) -> float:
        """The sum of the weights, each 1 where there are none."""
        return float(len(self) if self.weights is None else self.weights.sum())

    def batch(self, index: Tensor) -> Samples:
        """The samples at these positions."""
        weights = None if self.weights is None else self.weights[index]
        return Samples(self.inputs[index], self.labels[index], weights)


class Totals:
    """Sums over an epoch, kept on the device so that nothing waits for them."""

    def __init__(self) -> None:
        self.sums = torch.zeros(5)  # loss, weight; correct, uncertainty, samples
        self.most_evidence: Tensor | None = None

    def add(self, method: Method, loss: Tensor, logits: Tensor, batch: Batch, counts: bool = True) -> None:
        """One batch; one that does not count adds only what evidence it had."""
        prediction = method.interpret(logits.detach())
        if counts:
            samples = loss.new_tensor(len(batch.labels))
            weight = samples if batch.weights is None else batch.weights.sum()
            correct = (prediction.labels == batch.labels).sum()
            found = [loss.detach() * weight, weight, correct, prediction.uncertainty.sum(), samples]
            self.sums = self.sums.to(loss.device) + torch.stack(found)
        if isinstance(prediction, Opinion):
            most = prediction.evidence.amax(0)
            self.most_evidence = most if self.most_evidence is None else self.most_evidence.maximum(most)

    def means(self, fabric: Fabric) -> Metrics:
        """Loss, accuracy and mean uncertainty, over all processes."""
        sums = _reduced(fabric, self.sums.to(fabric.device), "sum").tolist()
        loss, weight, correct, uncertainty, samples = sums
        return {
            "loss": loss / max(weight, TINY),
            "accuracy": correct / samples,
            "uncertainty": uncertainty / samples,
        }

    def most(self, fabric: Fabric) -> Tensor | None:
        """The greatest evidence of each class (K,), over all processes; None without evidence."""
        return None if self.most_evidence is None else _reduced(fabric, self.most_evidence, "max")


def _reduced(fabric: Fabric, values: Tensor, operation: str) -> Tensor:
    return torch.as_tensor(fabric.all_reduce(values, reduce_op=operation))


def fit(
    method: Method,
    module: nn.Module,
    preprocess: Preprocess,
    train: Samples,
    settings: TrainingSettings,
    *,
    held_out: Samples | None = None,
    run: Run | None = None,
    report: Callable[[Metrics], None] | None = None,
) -> list[Metrics]:
    """Train the module in place, to the end or on from where the run stopped; the metrics of each epoch.

    The members of a module are trained one after the other, each with a seed and an order of its own.
    """
    if settings.patience is not None and held_out is None:
        raise TrainingError("patience needs held-out samples to watch; give some, or set patience to None")
    fabric = make_fabric(settings.device, settings.precision)
    members = method.members(module)
    if settings.precision == "float64":
        module.double()  # before the weights of a checkpoint come in, which are
    state = State(module) if run is None else run.resume(module, fabric)
    with generators_kept():
        for number in range(state.member, len(members)):
            seeded = replace(settings, seed=member_seed(settings.seed, number))
            loop = Loop(method, members[number], preprocess, seeded, fabric)
            state.start(number, loop.optimizer)
            while not state.is_done(settings):
                metrics = {"epoch": state.epochs + 1, **loop.epoch(train, state.epochs)}
                if len(members) > 1:
                    metrics = {"member": number + 1, **metrics}
                if held_out is not None:
                    found = loop.evaluate(held_out, len(train))
                    metrics |= {f"held_out_{name}": value for name, value in found.items()}
                state.add(metrics, loop.module if settings.patience is not None else None)
                if fabric.is_global_zero:
                    warn_if_stuck(state.rows, math.ceil(len(train) / settings.batch_size), train.labels)
                    if run:
                        run.save(state)
                    if report:
                        report(metrics)
            state.best.restore(loop.module)
    module.eval()
    fit_second_stage(method, module, lambda: _batches_in_order(module, preprocess, train, settings))
    return state.history


def _batches_in_order(
    module: nn.Module, preprocess: Preprocess, samples: Samples, settings: TrainingSettings
) -> Iterator[Batch]:
    """All samples, once and in their order, as the module takes them."""
    like = next(module.parameters())
    for index in torch.split(torch.arange(len(samples)), settings.batch_size):
        part = samples.batch(index)
        inputs = as_input(part.inputs.to(like.device), preprocess).to(like.dtype)
        weights = None if part.weights is None else part.weights.to(like.device)
        yield Batch(inputs, part.labels.to(like.device), weights)


def member_seed(seed: int, number: int) -> int:
    """Of the member of this number, from 0 on; the first has the training's own."""
    return (seed + number * MEMBER_SEED_STEP) % (LARGEST_SEED + 1)


@contextmanager
def generators_kept() -> Iterator[None]:
    """Training seeds torch's own generators, for dropout; the caller finds them as they were."""
    with torch.random.fork_rng():
        yield


class Loop:
    """A network on its device with its optimiser, for passes over data."""

    def __init__(
        self,
        method: Method,
        module: nn.Module,
        preprocess: Preprocess,
        settings: TrainingSettings,
        fabric: Fabric | None = None,
    ) -> None:
        self.method, self.preprocess, self.settings = method, preprocess, settings
        self.fabric = fabric or make_fabric(settings.device, settings.precision)
        self.module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimizer = torch.optim.Adam(module.parameters(), lr=settings.learning_rate, fused=True)
        self._dead: set[int] = set()
        self._wrapped, self._stepper = self.fabric.setup(self.module, self.optimizer)
        # In mixed precision Fabric refuses gradients that are taken inside a loss, as an adversarial step
        # takes them, for a loss could be scaled. In bfloat16 it is not.
        self._wrapped._register_backward_hook = lambda tensor: tensor

    def epoch(self, train: Samples, number: int) -> Metrics:
        """One pass over the data, in an order of its own."""
        start, totals, fabric = time.perf_counter(), Totals(), self.fabric
        self._wrapped.train()
        seed = self.settings.seed * 1_000_003 + number
        torch.manual_seed(seed * 1_009 + fabric.global_rank)  # for dropout, which takes no generator
        order = torch.Generator().manual_seed(seed)
        batches = split_evenly(torch.randperm(len(train), generator=order), self.settings.batch_size)
        input_range = fabric.to_device(self.preprocess.input_range(train.input_range))
        for step, index in enumerate(batches):
            epoch = number + step / len(batches)
            share = self._share(train, index, order)
            batch = self._prepared(share.samples)._replace(input_range=input_range)
            loss, logits = self.method.objective(self._wrapped, batch, epoch, len(train))
            self._step(loss * share.scale, epoch)
            if step % FLUSH_STEPS == 0 or step == len(batches) - 1:
                flush_denormals(self.optimizer)
            totals.add(self.method, loss, logits, batch, share.counts)
        metrics = totals.means(fabric)
        require_finite(metrics["loss"], number)
        self._warn_of_dead(totals.most(fabric), number)
        return metrics | {"seconds": time.perf_counter() - start}

    def _warn_of_dead(self, most: Tensor | None, number: int) -> None:
        """Of classes that have just died, by the first process: once is enough."""
        dead = dead_classes(most) - self._dead
        self._dead |= dead
        if dead and self.fabric.is_global_zero:
            warn_of_dead_evidence(dead, number)

    def _share(self, train: Samples, index: Tensor, generator: torch.Generator) -> Share:
        """This process's part of the batch at these positions; what is drawn, is drawn for all of it."""
        world = self.fabric.world_size
        place = torch.arange(self.fabric.global_rank, len(index), world)
        counts = len(place) > 0
        place = place if counts else torch.zeros(1, dtype=torch.long)  # all must take part in every step
        samples = train.batch(index[place])
        if self.settings.shift or self.settings.flip:
            moves = draw_moves(len(index), self.settings.shift, self.settings.flip, generator)
            samples = replace(samples, inputs=moved(samples.inputs, moves.of(place)))
        whole = train.batch(index) if world > 1 else samples
        return Share(samples, counts, counts * world * samples.mass / max(whole.mass, TINY))

    @torch.no_grad()
    def evaluate(self, samples: Samples, size: int) -> Metrics:
        """Loss, accuracy and mean uncertainty on held-out samples, with the loss of the training's end.

        size: of the training set.
        """
        self._wrapped.eval()
        totals, end = Totals(), float(self.settings.epochs)
        share = torch.arange(self.fabric.global_rank, len(samples), self.fabric.world_size)
        for index in torch.split(share, 4 * self.settings.batch_size) if len(share) else ():
            batch = self._prepared(samples.batch(index))
            loss, logits = self.method.objective(self._wrapped, batch, end, size)
            totals.add(self.method, loss, logits, batch)
        return totals.means(self.fabric)

    def _step(self, loss: Tensor, epoch: float) -> None:
        for group in self._stepper.param_groups:
            group["lr"] = rate_at(epoch, self.settings)
        self._stepper.zero_grad()
        self.fabric.backward(loss)
        self._stepper.step()

    def _prepared(self, samples: Samples) -> Batch:
        inputs = as_input(self.fabric.to_device(samples.inputs), self.preprocess)
        weights = None if samples.weights is None else self.fabric.to_device(samples.weights)
        return Batch(inputs, self.fabric.to_device(samples.labels), weights)


@torch.no_grad()
def flush_denormals(optimizer: torch.optim.Optimizer) -> None:
    """Set specks among the weights and their moments to zero.

    Under a weight penalty what is not used shrinks for ever. Specks change no output, but once they are
    denormal a CPU multiplies them a hundred times slower, in training and in every prediction after it.
    """
    moments = [value for state in optimizer.state.values() for value in state.values()]
    for values in (*(each for group in optimizer.param_groups for each in group["params"]), *moments):
        if isinstance(values, Tensor) and values.ndim:
            values.copy_(nn.functional.hardshrink(values, DENORMAL_BELOW))


class Share(NamedTuple):
    """One process's samples of a batch, and whether they count: a process without any borrows one.

    scale: of its loss, so that the mean over the processes is the loss of the whole batch.
    """

    samples: Samples
    counts: bool
    scale: float


def split_evenly(order: Tensor, size: int) -> list[Tensor]:
    """Batches of this size; one sample left over joins the last of them, as some layers need two."""
    batches = list(torch.split(order, size))
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches


def as_input(raw: Tensor, preprocess: Preprocess) -> Tensor:
    """Raw inputs on their device as the network takes them; images with the channels last in memory."""
    inputs = preprocess(raw)
    return inputs.contiguous(memory_format=torch.channels_last) if inputs.ndim == 4 else inputs


def rate_at(epoch: float, settings: TrainingSettings) -> float:
    """The learning rate at a (fractional) epoch: constant, or falling to zero like a cosine."""
    if settings.schedule == "constant":
        return settings.learning_rate
    return settings.learning_rate * 0.5 * (1 + math.cos(math.pi * epoch / settings.epochs))
