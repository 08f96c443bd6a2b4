"""The loop: minimise a method's objective over a data set. It knows no method by name."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nescio._memory import freed_memory_kept
from nescio.data.preprocess import Preprocess
from nescio.errors import InputError, TrainingError
from nescio.methods import Batch, Method
from nescio.training._average import WeightAverage
from nescio.training._batches import EpochBatches, ProcessPlace, parts_in_order, watched_parts
from nescio.training._diagnostics import (
    STUCK_STEPS,
    find_dead_classes,
    finds_nothing,
    is_guessing,
    refuse_outputs,
    require_finite,
    some_of,
    warn_if_stuck,
    warn_of_dead_classes,
    warn_of_guessing,
)
from nescio.training._mixup import mixed
from nescio.training._optimizers import (
    drop_gradients_below_head,
    keep_statistics_below_head,
    make_optimizer,
    set_learning_rate,
)
from nescio.training._run import Metrics, Run, TrainingState
from nescio.training._runtime import allow_gradients_inside_a_loss, make_fabric
from nescio.training._samples import Samples
from nescio.training._sampling import class_weights, with_class_weights
from nescio.training._second_stage import fit_second_stage
from nescio.training._totals import EpochTotals
from nescio.training.loggers import Logger, RowLog, logging_to
from nescio.training.settings import LARGEST_SEED, TrainingSettings

if TYPE_CHECKING:
    from lightning_fabric import Fabric

DENORMAL_BELOW = 1e-30
FLUSH_STEPS = 20
MEMBER_SEED_STEP = 10_007  # members of an ensemble are trained with seeds this far apart


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
    log: Sequence[Logger] = (),
) -> list[Metrics]:
    """Train a module in place, to the end or on from where a run stopped.

    The members of a module are trained one after the other, each with a seed and an order of its own.

    Args:
        method: What is minimised.
        module: A network that the method has built: inputs (N, ...) to logits (N, K).
        preprocess: Turns raw inputs into what the network takes.
        train: What is learned from.
        settings: How long, how fast, where. What they leave open is chosen by the number of samples, see
            `TrainingSettings.resolved`.
        held_out: What the training is watched on after every epoch; needed for patience.
        run: A folder that keeps the progress; a training that was stopped goes on from it.
        report: Function that is called after every epoch with its metrics.
        log: Loggers that are given the metrics of every epoch, see `nescio.training.loggers`; they need a
            run.

    Returns:
        The metrics of every epoch: "epoch", "loss", "accuracy", "uncertainty", "seconds", with `held_out` the
        same of it ("held_out_loss", ...), and with several members the number of the "member". Where the
        weights that are kept are as good as guessing, a warning says so; after 100 steps and more the last
        one has "is_guessing" too.

    Raises:
        TrainingError: If the training has diverged, patience has nothing to watch, or a logger can't start.
        InputError: If there are loggers and no run.
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
    if log and run is None:
        raise InputError("log needs the folder of a run (run_dir), got none")
    _refuse_augmentation(settings, method, train)
    settings = settings.resolved(len(train))
    assert settings.learning_rate is not None
    num_classes = 0
    if held_out is not None:
        num_classes = int(held_out.labels.max()) + 1
    weight = class_weights(train.labels, settings.class_weight, num_classes)
    train = with_class_weights(train, weight)
    if held_out is not None:
        held_out = with_class_weights(held_out, weight)
    fabric = make_fabric(settings.device, settings.precision)
    with generators_kept():
        torch.manual_seed(_member_seed(settings.seed, 1))  # other weights than the network's own
        whole = method.for_training(module)
    members = method.members(whole)
    if settings.precision == "float64":
        whole.double()  # before the weights of a checkpoint come in, which are
    state = TrainingState(whole)
    if run is not None:
        state = run.resume(whole, fabric)
    assert settings.batch_size is not None
    steps = math.ceil(len(train) / (settings.batch_size * settings.accumulate))
    with generators_kept(), freed_memory_kept(), _logging(log, run, state, fabric) as rows:
        for number in range(state.member, len(members)):
            seeded = replace(settings, seed=_member_seed(settings.seed, number))
            loop = Loop(method, members[number], preprocess, seeded, fabric)
            state.start_member(number, loop.optimizer, loop.average)
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
                    with loop.averaged():
                        state.best.offer(metrics["held_out_loss"], state.epochs_done, loop.module)
                if fabric.is_global_zero:
                    if not settings.is_balanced:  # which may cost accuracy, and is meant to
                        warn_if_stuck(_accuracies(state), steps, train.labels)
                    if run:
                        run.save(state)
                    rows.write(metrics, len(state.history))
                    if report:
                        report(metrics)
            loop.keep_average()
            state.best.restore(loop.module)
            if fabric.is_global_zero and _has_learned_nothing(loop, state, train):
                if steps * state.epochs_done >= STUCK_STEPS:
                    state.history[-1]["is_guessing"] = 1.0
                warn_of_guessing(_accuracies(state), steps, train.labels, settings.learning_rate)
    module.to(fabric.device)  # also members of an ensemble that were finished before it was resumed
    module.eval()
    fit_second_stage(method, module, lambda: _batches_in_order(module, preprocess, train, settings))
    return state.history


def _logging(
    log: Sequence[Logger], run: Run | None, state: TrainingState, fabric: Fabric
) -> AbstractContextManager[RowLog]:
    """The loggers of the first process; the others have none."""
    if run is None or not fabric.is_global_zero:
        return nullcontext(RowLog([]))
    return logging_to(log, run.folder, run.settings, state.history)


def _refuse_augmentation(settings: TrainingSettings, method: Method, train: Samples) -> None:
    """Settings that are for images go with images, and mixup with a method that takes soft labels."""
    chosen = settings.images_only
    if chosen and len(train.inputs.shape) != 4:
        raise InputError(
            f"{' and '.join(chosen)} change images (N, C, H, W), got {tuple(train.inputs.shape)}"
        )
    if settings.mixup and not method.takes_soft_labels:
        raise InputError(
            f"mixup makes soft labels, and the method {method.name} takes none; set mixup to 0 or choose "
            "another method"
        )


def _batches_in_order(
    module: nn.Module, preprocess: Preprocess, samples: Samples, settings: TrainingSettings
) -> Iterator[Batch]:
    """All samples, once and in their order, as the module takes them."""
    assert settings.batch_size is not None
    like = next(module.parameters())
    for part in parts_in_order(samples, torch.arange(len(samples)), settings.batch_size):
        inputs = as_input(part.read().to(like.device), preprocess).to(like.dtype)
        weights = None
        if part.weights is not None:
            weights = part.weights.to(like.device)
        yield Batch(inputs, part.labels.to(like.device), weights)


def _accuracies(state: TrainingState) -> list[float]:
    return [metrics["accuracy"] for metrics in state.member_history]


def _has_learned_nothing(loop: Loop, state: TrainingState, train: Samples) -> bool:
    """Whether the weights that are kept are as good as guessing on the samples they were trained on.

    The accuracy of an epoch is that of weights that still change: where it looks like guessing, the kept
    weights are asked about some of the samples.
    """
    kept = state.best.epoch - 1 if state.best.weights is not None else -1
    if not is_guessing(_accuracies(state)[kept], train.labels):
        return False
    some = some_of(len(train))
    return finds_nothing(loop.answers(train, some), train.labels[some])


def _member_seed(seed: int, number: int) -> int:
    """Of the member of this number, from 0 on; the first has the training's own."""
    return (seed + number * MEMBER_SEED_STEP) % (LARGEST_SEED + 1)


@contextmanager
def generators_kept() -> Iterator[None]:
    """Training seeds torch's own generators, for dropout; the caller finds them as they were."""
    with torch.random.fork_rng():
        yield


class Loop:
    """A network on its device with its optimiser, for passes over data.

    Args:
        method: What is minimised.
        module: The network, or one of its members.
        preprocess: Turns raw inputs into what the network takes.
        settings: Resolved ones: nothing is left open.
        fabric: Where it runs; made from the settings where there is none.
    """

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
        self.optimizer = make_optimizer(module, settings)
        self._place = ProcessPlace(self.fabric.global_rank, self.fabric.world_size)
        self._dead_classes: set[int] = set()
        self._num_classes: int | None = None
        self._wrapped, self._stepper = self.fabric.setup(self.module, self.optimizer)
        allow_gradients_inside_a_loss(self._wrapped)
        self.average: WeightAverage | None = None
        if settings.ema:
            self.average = WeightAverage(self.module, settings.ema)

    def epoch(self, train: Samples, number: int) -> Metrics:
        """One pass over the data, in an order of its own; number: how many there were before."""
        start = time.perf_counter()
        totals = EpochTotals()
        self._wrapped.train()
        if number < self.settings.freeze_epochs:
            keep_statistics_below_head(self.module)
        seed = self.settings.seed * 1_000_003 + number
        torch.manual_seed(seed * 1_009 + self.fabric.global_rank)  # for dropout, which takes no generator
        generator = torch.Generator().manual_seed(seed)
        batches = EpochBatches(train, self.settings, generator, self._place)
        input_range = self._input_range(train)
        step_length = self.settings.accumulate / len(batches)  # in epochs
        for place, share in enumerate(batches):
            epoch = number + place / len(batches)
            batch = self._prepared(share.samples)._replace(input_range=input_range)
            if share.mix < 1:
                batch = mixed(batch, share.mix, self._count_classes(batch.inputs))
            is_end_of_step = batches.is_end_of_step(place)
            with self._gradients_summed(is_end_of_step), self._divergence_named(batch, number):
                loss, logits = self.method.objective(self._wrapped, batch, epoch, len(train))
                if place % self.settings.accumulate == 0:
                    # Not before the objective: its outputs would take the memory that gradients had, and
                    # new memory for these costs a fifth of a step in page faults.
                    self._stepper.zero_grad()
                self.fabric.backward(loss * share.scale)
            if is_end_of_step:
                begin = place - place % self.settings.accumulate
                self._step(number + begin / len(batches), step_length)
            if place % FLUSH_STEPS == 0 or place == len(batches) - 1:
                flush_denormals(self.optimizer)
            with self._divergence_named(batch, number):
                totals.add(self.method, loss, logits, batch, share.counts)
        metrics = totals.means(self.fabric)
        require_finite(metrics["loss"], number)
        self._warn_of_dead_classes(totals.greatest(self.fabric), number)
        return metrics | {"seconds": time.perf_counter() - start}

    def _count_classes(self, inputs: Tensor) -> int:
        """K, as the network has it; it is asked once, and nothing is drawn for it that counts."""
        if self._num_classes is None:
            in_training = [each for each in self.module.modules() if each.training]
            self.module.eval()
            with torch.random.fork_rng(), torch.no_grad():
                like = next(self.module.parameters())
                self._num_classes = self.module(inputs[:1].to(like.dtype)).shape[1]
            for each in in_training:
                each.training = True
        return self._num_classes

    def _input_range(self, train: Samples) -> Tensor | None:
        """As the network takes it; inputs on the disk are not read for a method that has no use for it."""
        if not train.is_resident and not self.method.uses_input_range:
            return None
        return self.fabric.to_device(self.preprocess.input_range(train.input_range))

    def _warn_of_dead_classes(self, greatest_evidence: Tensor | None, number: int) -> None:
        """Of classes that have just died, by the first process: once is enough."""
        dead = find_dead_classes(greatest_evidence) - self._dead_classes
        self._dead_classes |= dead
        if dead and self.fabric.is_global_zero:
            warn_of_dead_classes(dead, number)

    def evaluate(self, samples: Samples, num_train: int) -> Metrics:
        """Loss, accuracy and mean uncertainty on held-out samples, with the loss of the training's end."""
        with self.averaged():
            return self._measure(samples, num_train)

    @torch.no_grad()
    def _measure(self, samples: Samples, num_train: int) -> Metrics:
        assert self.settings.epochs is not None
        self._wrapped.eval()
        totals = EpochTotals()
        last_epoch = float(self.settings.epochs)
        for part in watched_parts(samples, self.settings, self._place):
            batch = self._prepared(part)
            with self._divergence_named(batch, self.settings.epochs - 1):
                loss, logits = self.method.objective(self._wrapped, batch, last_epoch, num_train)
                totals.add(self.method, loss, logits, batch)
        return totals.means(self.fabric)

    def held_out_loss(self, samples: Samples, num_train: int) -> float:
        """The loss of held-out samples with the weights of now, which no average replaces."""
        return self._measure(samples, num_train)["loss"]

    @torch.no_grad()
    def answers(self, samples: Samples, positions: Tensor) -> Tensor:
        """The class (M,) that the network names for each of the samples at these positions (M,)."""
        assert self.settings.batch_size is not None
        self._wrapped.eval()
        found = []
        for part in parts_in_order(samples, positions, self.settings.batch_size):
            batch = self._prepared(part)
            # Not the wrapped one: one process asks, and the others do not take part.
            logits = self.module(batch.inputs.to(next(self.module.parameters()).dtype))
            found.append(self.method.interpret(logits).labels.cpu())
        return torch.cat(found)

    @contextmanager
    def _divergence_named(self, batch: Batch, number: int) -> Iterator[None]:
        """What a method says of outputs that are no numbers becomes the training's own error."""
        try:
            yield
        except InputError as error:
            with torch.no_grad():
                outputs = self._wrapped(batch.inputs)
            if bool(outputs.isfinite().all()):
                raise
            assert self.settings.learning_rate is not None
            raise refuse_outputs(number, self.settings.learning_rate) from error

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Within, the network has its averaged weights, where there are any."""
        if self.average is None:
            yield
            return
        with self.average.in_place():
            yield

    def keep_average(self) -> None:
        """At the end: the averaged weights are the network's, where there are any."""
        if self.average is not None:
            self.average.put_in()

    @contextmanager
    def _gradients_summed(self, is_end_of_step: bool) -> Iterator[None]:
        """Processes exchange their gradients once a step, at its end."""
        waits = self._place.world_size > 1 and not is_end_of_step
        if not waits:
            yield
            return
        with self.fabric.no_backward_sync(self._wrapped):
            yield

    def _step(self, epoch: float, step_length: float) -> None:
        groups = self._stepper.param_groups
        set_learning_rate(groups, epoch, step_length, self.settings)
        if epoch < self.settings.freeze_epochs:
            drop_gradients_below_head(groups)
        if self.settings.clip_norm:
            nn.utils.clip_grad_norm_(self.module.parameters(), self.settings.clip_norm)
        self._stepper.step()
        if self.average is not None:
            self.average.update()

    def _prepared(self, samples: Samples) -> Batch:
        inputs = as_input(self.fabric.to_device(samples.read()), self.preprocess)
        labels = self.fabric.to_device(samples.labels)
        weights = None
        if samples.weights is not None:
            weights = self.fabric.to_device(samples.weights)
        return Batch(inputs, labels, weights)


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


def as_input(raw: Tensor, preprocess: Preprocess) -> Tensor:
    """Bring raw inputs to what the network takes, on their device; images with channels last in memory.

    Args:
        raw: Raw inputs (N, ...).
        preprocess: How inputs are brought to the scale of the network.

    Returns:
        Inputs (N, ...) for the network.

    Example:
        >>> from nescio.data.preprocess import RowPreprocess
        >>> as_input(torch.tensor([[3.0, 6.0]]), RowPreprocess((2,), mean=(1.0, 2.0), scale=(2.0, 2.0)))
        tensor([[1., 2.]])
    """
    inputs = preprocess(raw)
    if inputs.ndim == 4:
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    return inputs
