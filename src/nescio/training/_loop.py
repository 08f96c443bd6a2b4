"""The loop: minimise a method's objective over a data set. It knows no method by name."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from nescio.data.preprocess import Preprocess
from nescio.errors import TrainingError
from nescio.methods import Batch, Method
from nescio.opinions.opinion import Opinion
from nescio.training._augment import apply_moves, draw_moves
from nescio.training._diagnostics import (
    find_dead_classes,
    require_finite,
    warn_if_diverged,
    warn_if_stuck,
    warn_of_dead_classes,
)
from nescio.training._run import Metrics, Run, TrainingState
from nescio.training._runtime import allow_gradients_inside_a_loss, make_fabric
from nescio.training._samples import Samples
from nescio.training._second_stage import fit_second_stage
from nescio.training.settings import LARGEST_SEED, TrainingSettings

if TYPE_CHECKING:
    from lightning_fabric import Fabric

TINY = 1e-300  # instead of a sum of weights that is zero
DENORMAL_BELOW = 1e-30
FLUSH_STEPS = 20
MEMBER_SEED_STEP = 10_007  # members of an ensemble are trained with seeds this far apart


class _EpochTotals:
    """Sums over an epoch, kept on the device so that nothing waits for them."""

    def __init__(self) -> None:
        self.sums = torch.zeros(5)  # loss, weight; correct, uncertainty, samples
        self.greatest_evidence: Tensor | None = None

    def add(self, method: Method, loss: Tensor, logits: Tensor, batch: Batch, counts: bool = True) -> None:
        """One batch; one that does not count adds only what evidence it had."""
        prediction = method.interpret(logits.detach())
        if counts:
            samples = loss.new_tensor(len(batch.labels))
            weight = samples
            if batch.weights is not None:
                weight = batch.weights.sum()
            correct = (prediction.labels == batch.labels).sum()
            found = [loss.detach() * weight, weight, correct, prediction.uncertainty.sum(), samples]
            self.sums = self.sums.to(loss.device) + torch.stack(found)
        if isinstance(prediction, Opinion):
            greatest = prediction.evidence.amax(0)
            if self.greatest_evidence is not None:
                greatest = self.greatest_evidence.maximum(greatest)
            self.greatest_evidence = greatest

    def means(self, fabric: Fabric) -> Metrics:
        """Loss, accuracy and mean uncertainty, over all processes."""
        sums = _reduced(fabric, self.sums.to(fabric.device), "sum").tolist()
        loss, weight, correct, uncertainty, samples = sums
        return {
            "loss": loss / max(weight, TINY),
            "accuracy": correct / samples,
            "uncertainty": uncertainty / samples,
        }

    def greatest(self, fabric: Fabric) -> Tensor | None:
        """The greatest evidence of each class (K,), over all processes; None without evidence."""
        if self.greatest_evidence is None:
            return None
        return _reduced(fabric, self.greatest_evidence, "max")


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
    """Train a module in place, to the end or on from where a run stopped.

    The members of a module are trained one after the other, each with a seed and an order of its own.

    Args:
        method: What is minimised.
        module: A network that the method has built: inputs (N, ...) to logits (N, K).
        preprocess: Turns raw inputs into what the network takes.
        train: What is learned from.
        settings: How long, how fast, where.
        held_out: What the training is watched on after every epoch; needed for patience.
        run: A folder that keeps the progress; a training that was stopped goes on from it.
        report: Function that is called after every epoch with its metrics.

    Returns:
        The metrics of every epoch: "epoch", "loss", "accuracy", "uncertainty", "seconds", with `held_out` the
        same of it ("held_out_loss", ...), and with several members the number of the "member".

    Raises:
        TrainingError: If the loss is no number any more, or patience has nothing to watch.
        ModelFileError: If the checkpoint of the run is damaged or of another network.

    Example:
        >>> import torch
        >>> from nescio import EDL, MLPSpec
        >>> from nescio.data.preprocess import Preprocess
        >>> inputs = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
        >>> labels = (inputs[:, 0] > 0).long()
        >>> _ = torch.manual_seed(0)
        >>> module = EDL().build(MLPSpec(2, 2))
        >>> settings = TrainingSettings(epochs=20, learning_rate=0.01, device="cpu", precision="float32")
        >>> history = fit(EDL(), module, Preprocess.fit(inputs), Samples(inputs, labels), settings)
        >>> len(history), history[-1]["accuracy"] > 0.9
        (20, True)
    """
    if settings.patience is not None and held_out is None:
        raise TrainingError("patience needs held-out samples to watch; give some, or set patience to None")
    fabric = make_fabric(settings.device, settings.precision)
    members = method.members(module)
    if settings.precision == "float64":
        module.double()  # before the weights of a checkpoint come in, which are
    state = TrainingState(module)
    if run is not None:
        state = run.resume(module, fabric)
    steps = math.ceil(len(train) / settings.batch_size)
    with generators_kept():
        for number in range(state.member, len(members)):
            seeded = replace(settings, seed=_member_seed(settings.seed, number))
            loop = Loop(method, members[number], preprocess, seeded, fabric)
            state.start_member(number, loop.optimizer)
            if held_out is not None and settings.patience is not None and state.is_lengthened:
                measure = partial(loop.held_out_loss, held_out, len(train))
                state.compare_anew(measure, loop.module)
            while not state.is_done(settings):
                metrics = {"epoch": state.epochs_done + 1, **loop.epoch(train, state.epochs_done)}
                if len(members) > 1:
                    metrics = {"member": number + 1, **metrics}
                if held_out is not None:
                    for name, value in loop.evaluate(held_out, len(train)).items():
                        metrics[f"held_out_{name}"] = value
                state.history.append(metrics)
                if settings.patience is not None:
                    state.best.offer(metrics["held_out_loss"], state.epochs_done, loop.module)
                if fabric.is_global_zero:
                    warn_if_stuck(_accuracies(state), steps, train.labels)
                    if run:
                        run.save(state)
                    if report:
                        report(metrics)
            if fabric.is_global_zero and settings.patience is None:
                warn_if_diverged(_accuracies(state), steps, train.labels)
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
        part = samples.take(index)
        inputs = as_input(part.inputs[:].to(like.device), preprocess).to(like.dtype)
        weights = None
        if part.weights is not None:
            weights = part.weights.to(like.device)
        yield Batch(inputs, part.labels.to(like.device), weights)


def _accuracies(state: TrainingState) -> list[float]:
    return [metrics["accuracy"] for metrics in state.member_history]


def _member_seed(seed: int, number: int) -> int:
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
        self.method = method
        self.preprocess = preprocess
        self.settings = settings
        self.fabric = fabric or make_fabric(settings.device, settings.precision)
        self.module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimizer = torch.optim.Adam(module.parameters(), lr=settings.learning_rate, fused=True)
        self._dead_classes: set[int] = set()
        self._wrapped, self._stepper = self.fabric.setup(self.module, self.optimizer)
        allow_gradients_inside_a_loss(self._wrapped)

    def epoch(self, train: Samples, number: int) -> Metrics:
        """One pass over the data, in an order of its own; number: how many there were before."""
        start = time.perf_counter()
        totals = _EpochTotals()
        self._wrapped.train()
        seed = self.settings.seed * 1_000_003 + number
        torch.manual_seed(seed * 1_009 + self.fabric.global_rank)  # for dropout, which takes no generator
        generator = torch.Generator().manual_seed(seed)
        batches = _split_evenly(torch.randperm(len(train), generator=generator), self.settings.batch_size)
        input_range = self.fabric.to_device(self.preprocess.input_range(train.input_range))
        for step, index in enumerate(batches):
            epoch = number + step / len(batches)
            share = self._share(train, index, generator)
            batch = self._prepared(share.samples)._replace(input_range=input_range)
            loss, logits = self.method.objective(self._wrapped, batch, epoch, len(train))
            self._step(loss * share.scale, epoch)
            if step % FLUSH_STEPS == 0 or step == len(batches) - 1:
                flush_denormals(self.optimizer)
            totals.add(self.method, loss, logits, batch, share.counts)
        metrics = totals.means(self.fabric)
        require_finite(metrics["loss"], number)
        self._warn_of_dead_classes(totals.greatest(self.fabric), number)
        return metrics | {"seconds": time.perf_counter() - start}

    def _warn_of_dead_classes(self, greatest_evidence: Tensor | None, number: int) -> None:
        """Of classes that have just died, by the first process: once is enough."""
        dead = find_dead_classes(greatest_evidence) - self._dead_classes
        self._dead_classes |= dead
        if dead and self.fabric.is_global_zero:
            warn_of_dead_classes(dead, number)

    def _share(self, train: Samples, index: Tensor, generator: torch.Generator) -> _BatchShare:
        """This process's part of the batch at these positions; what is drawn, is drawn for all of it."""
        world_size = self.fabric.world_size
        place = torch.arange(self.fabric.global_rank, len(index), world_size)
        counts = len(place) > 0
        if not counts:
            place = torch.zeros(1, dtype=torch.long)  # all processes must take part in every step
        samples = train.take(index[place])
        if self.settings.shift or self.settings.flip:
            moves = draw_moves(len(index), self.settings.shift, self.settings.flip, generator)
            samples = replace(samples, inputs=apply_moves(samples.inputs[:], moves.take(place)))
        whole = samples
        if world_size > 1:
            whole = train.take(index)
        scale = counts * world_size * samples.total_weight / max(whole.total_weight, TINY)
        return _BatchShare(samples, counts, scale)

    @torch.no_grad()
    def evaluate(self, samples: Samples, num_train: int) -> Metrics:
        """Loss, accuracy and mean uncertainty on held-out samples, with the loss of the training's end."""
        self._wrapped.eval()
        totals = _EpochTotals()
        last_epoch = float(self.settings.epochs)
        share = torch.arange(self.fabric.global_rank, len(samples), self.fabric.world_size)
        if len(share):
            for index in torch.split(share, 4 * self.settings.batch_size):
                batch = self._prepared(samples.take(index))
                loss, logits = self.method.objective(self._wrapped, batch, last_epoch, num_train)
                totals.add(self.method, loss, logits, batch)
        return totals.means(self.fabric)

    def held_out_loss(self, samples: Samples, num_train: int) -> float:
        """The loss alone of `evaluate`."""
        return self.evaluate(samples, num_train)["loss"]

    def _step(self, loss: Tensor, epoch: float) -> None:
        for group in self._stepper.param_groups:
            group["lr"] = _learning_rate_at(epoch, self.settings)
        self._stepper.zero_grad()
        self.fabric.backward(loss)
        self._stepper.step()

    def _prepared(self, samples: Samples) -> Batch:
        inputs = as_input(self.fabric.to_device(samples.inputs), self.preprocess)
        labels = self.fabric.to_device(samples.labels)
        weights = None
        if samples.weights is not None:
            weights = self.fabric.to_device(samples.weights)
        return Batch(inputs, labels, weights)


class _BatchShare(NamedTuple):
    """One process's samples of a batch, and whether they count: a process without any borrows one.

    scale: of its loss, so that the mean over the processes is the loss of the whole batch.
    """

    samples: Samples
    counts: bool
    scale: float


@torch.no_grad()
def flush_denormals(optimizer: torch.optim.Optimizer) -> None:
    """Set denormal numbers among the weights and their moments to zero.

    Under a weight penalty what is not used shrinks for ever. Such small numbers change no output, but once
    they are denormal a CPU multiplies them a hundred times slower, in training and in every prediction.
    """
    values: list[object] = []
    for group in optimizer.param_groups:
        values.extend(group["params"])
    for state in optimizer.state.values():
        values.extend(state.values())
    for value in values:
        if isinstance(value, Tensor) and value.ndim:
            value.copy_(nn.functional.hardshrink(value, DENORMAL_BELOW))


def _split_evenly(order: Tensor, size: int) -> list[Tensor]:
    """Batches of this size; one sample left over joins the last of them, as some layers need two."""
    batches = list(torch.split(order, size))
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches


def as_input(raw: Tensor, preprocess: Preprocess) -> Tensor:
    """Raw inputs (N, ...) as the network takes them, on their device; images with channels last in memory."""
    inputs = preprocess(raw)
    if inputs.ndim == 4:
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    return inputs


def _learning_rate_at(epoch: float, settings: TrainingSettings) -> float:
    """The learning rate at a (fractional) epoch: constant, or falling to zero like a cosine."""
    if settings.schedule == "constant":
        return settings.learning_rate
    return settings.learning_rate * 0.5 * (1 + math.cos(math.pi * epoch / settings.epochs))
