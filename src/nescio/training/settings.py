"""How to train: everything that a run's result depends on, beside method, network and data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nescio._checks import require_bool, require_number, require_whole
from nescio.errors import InputError
from nescio.training._optimizers import require_optimizer, takes_weight_decay
from nescio.training._policies import AUGMENTATIONS, NONE

LARGEST_SEED = 2**32 - 1
SCHEDULES = ("cosine", "constant")
PRECISIONS = ("auto", "float32", "bfloat16", "float64")
SAMPLERS = ("shuffled", "balanced")
BALANCED = "balanced"

# The rule for batch size and epochs, docs/decisions/0019: how it was chosen.
LEAST_BATCH = 16
LARGEST_BATCH = 256
BATCHES_OF_AN_EPOCH = 64
LEAST_STEPS = 1_000
ENOUGH_STEPS = 3_500
ENOUGH_SAMPLES = 16_000
LEAST_EPOCHS = 5

# The greatest learning rate, docs/decisions/0022: a perceptron on rows takes more than a network of images.
LEARNING_RATE = 1e-3
LEARNING_RATE_OF_ROWS = 3e-3
LEAST_STEPS_OF_HEAD = 300
CLASSES_OF_ALL_STEPS = 64  # from so many on, a head gets as many steps as any network

# The weight decay for rows, docs/decisions/0035: the less the more samples there are.
LARGEST_DECAY = 1.0
SAMPLES_OF_LARGEST_DECAY = 1_000
DECOUPLED = "adamw"

# What is chosen where the user has not: for a network from its first weights, and for one that brings
# weights from elsewhere, which must not be lost in the first steps.
_FROM_SCRATCH: dict[str, Any] = {
    "optimizer": "adam",
    "weight_decay": 0.0,
    "warmup": 0.0,
    "clip_norm": 0.0,
    "encoder_rate": 1.0,
}
_FINE_TUNED: dict[str, Any] = {
    "optimizer": "adamw",
    "weight_decay": 0.01,
    "warmup": 0.1,
    "clip_norm": 1.0,
    "encoder_rate": 0.1,
}


@dataclass(frozen=True)
class TrainingSettings:
    """How to train. None means: chosen by the size of the data and the kind of network, see `resolved`.

    Args:
        epochs: Passes over the training data; None for enough of them, by the size of the data.
        batch_size: Samples of a batch; None for what suits the size of the data.
        learning_rate: The greatest learning rate, before the schedule lowers it; None for 1e-3, and 3e-3 for
            a network that takes rows of numbers.
        schedule: "cosine" lowers the learning rate to zero over all epochs, "constant" keeps it.
        shift: Images are moved by up to so many pixels, anew in every epoch.
        flip: Whether images are mirrored at random.
        patience: Stop after so many epochs without a lower held-out loss, and keep the best weights. None
            never stops early.
        seed: Seed of everything random: the order of samples, augmentation, dropout.
        device: "cpu", "cuda", "mps", or "auto" for the accelerator if there is one.
        precision: "float32", "bfloat16", "float64", or "auto" for bfloat16 where the hardware is faster with
            it.
        optimizer: The name of one of torch.optim in any case: "adam", "adamw", "sgd", ...; "sgd" has a
            momentum of 0.9. None: "adam"; "adamw" for fine-tuning, and for rows of numbers with most methods.
        weight_decay: Weight decay of the optimiser. None: 0; 0.01 for fine-tuning; with "adamw" for rows of
            numbers 1, and of more than 1,000 samples 1,000 / samples, with most methods.
        warmup: The share of the training, from 0 to below 1, in which the learning rate grows to its
            greatest. None: 0, and 0.1 for fine-tuning.
        clip_norm: The greatest norm that the gradient of a step may have; 0 for any. None: 0, and 1 for
            fine-tuning.
        accumulate: Batches that make one step: it learns from so many times `batch_size` samples, with the
            memory that one batch needs.
        ema: How much of the exponential moving average of the weights is kept at each step, from 0 (none is
            made) to below 1. With it the averaged weights are watched and kept.
        class_weight: How much the samples of each class count: numbers (K,), "balanced" for n / (K * samples
            of the class), or None for all alike.
        sampler: "shuffled" takes every sample once in an epoch; "balanced" takes as many of every class, the
            samples of rare classes several times.
        encoder_rate: What the learning rate of all parameters but the head's is multiplied by. None: 1, and
            0.1 for fine-tuning.
        freeze_epochs: In so many epochs at the beginning only the head learns.
        augment: Images are changed at random, anew in every epoch: "light" takes a part of each at full size
            and mirrors half of them, for photos; "strong" changes their colours, turns and distorts them too;
            "none" leaves them.
        mixup: Pairs of images are mixed, and their labels alike, by shares from a Beta distribution with this
            for both parameters, such as 0.2; 0 for none. For methods that take soft labels.

    Raises:
        InputError: If a setting has a value that can't be.

    Example:
        >>> settings = TrainingSettings(epochs=30, patience=5)
        >>> settings.resolved(num_train=5_000).batch_size
        64
        >>> TrainingSettings(epochs=0)
        Traceback (most recent call last):
        ...
        nescio.errors.InputError: epochs must be a whole number from 1 on, got 0
    """

    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    schedule: str = "cosine"
    shift: int = 0
    flip: bool = False
    patience: int | None = None
    seed: int = 0
    device: str = "auto"
    precision: str = "auto"
    optimizer: str | None = None
    weight_decay: float | None = None
    warmup: float | None = None
    clip_norm: float | None = None
    accumulate: int = 1
    ema: float = 0.0
    class_weight: str | Sequence[float] | None = None
    sampler: str = "shuffled"
    encoder_rate: float | None = None
    freeze_epochs: int = 0
    augment: str = NONE
    mixup: float = 0.0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "patience"):
            if getattr(self, name) is not None:
                require_whole(name, getattr(self, name))
        require_whole("shift", self.shift, least=0)
        require_bool("flip", self.flip)
        require_whole("seed", self.seed, least=0, most=LARGEST_SEED)
        require_whole("accumulate", self.accumulate)
        require_whole("freeze_epochs", self.freeze_epochs, least=0)
        for name in ("learning_rate", "weight_decay", "clip_norm", "encoder_rate"):
            if getattr(self, name) is not None:
                require_number(name, getattr(self, name))
        if self.learning_rate == 0:
            raise InputError("learning_rate must be a positive number, got 0")
        if self.warmup is not None:
            _require_below_one("warmup", self.warmup)
        _require_below_one("ema", self.ema)
        _require_one_of("schedule", self.schedule, SCHEDULES)
        _require_one_of("precision", self.precision, PRECISIONS)
        _require_one_of("sampler", self.sampler, SAMPLERS)
        _require_one_of("augment", self.augment, AUGMENTATIONS)
        require_number("mixup", self.mixup)
        if self.optimizer is not None:
            require_optimizer(self.optimizer, self.weight_decay or 0.0)
        if self.class_weight is not None:
            object.__setattr__(self, "class_weight", _checked_class_weight(self.class_weight))

    def resolved(
        self,
        num_train: int,
        fine_tuned: bool = False,
        rows: bool = False,
        head_classes: int | None = None,
        with_weight_decay: bool = False,
    ) -> TrainingSettings:
        """The settings with a value for everything that was left open.

        The same size of data gives the same values to the same kind of network; they are what runs and model
        files hold. The batch size is a power of two from 16 to 256, such that an epoch has about 64 batches.
        There are as many epochs as make 1,000 steps for a small data set and, growing with the logarithm of
        its size, 3,500 for one of 16,000 samples and more, but no fewer than 5 epochs.

        Args:
            num_train: Samples to train on.
            fine_tuned: Whether a network with weights from elsewhere is trained as a whole. It gets AdamW
                with a weight decay of 0.01, a warm-up over a tenth of the training, gradients of a norm of 1
                at most, and a tenth of the learning rate below its head.
            rows: Whether the samples are rows of numbers.
            head_classes: Number of classes of a head on the features of a frozen encoder; None for any other
                network. With fewer than 64 classes it gets fewer steps in proportion, but no fewer than 300:
                one that is trained on and on is hardly more often right, and too sure.
            with_weight_decay: Whether a network from its first weights gets AdamW, with a weight decay of 1,
                and of more than 1,000 samples 1,000 / samples. Another optimiser gets none.

        Returns:
            Settings without None, but for `patience` and `class_weight`, where None is a choice.

        Raises:
            InputError: If there are no samples.

        Example:
            >>> small = TrainingSettings().resolved(num_train=90)
            >>> small.batch_size, small.epochs
            (16, 167)
            >>> large = TrainingSettings().resolved(num_train=60_000)
            >>> large.batch_size, large.epochs
            (256, 15)
            >>> TrainingSettings(epochs=3).resolved(num_train=90).epochs
            3
        """
        require_whole("num_train", num_train)
        usual = _FINE_TUNED if fine_tuned else _FROM_SCRATCH
        chosen = {name: value for name, value in usual.items() if getattr(self, name) is None}
        if self.optimizer is not None and not takes_weight_decay(self.optimizer):
            chosen["weight_decay"] = 0.0
        if with_weight_decay and not fine_tuned:
            optimizer = self.optimizer or DECOUPLED
            chosen["optimizer"] = optimizer
            if self.weight_decay is None and optimizer.lower() == DECOUPLED:
                chosen["weight_decay"] = usual_weight_decay(num_train)
        if self.learning_rate is None:
            chosen["learning_rate"] = LEARNING_RATE_OF_ROWS if rows else LEARNING_RATE
        batch_size = self.batch_size
        if batch_size is None:
            batch_size = usual_batch_size(num_train)
        epochs = self.epochs
        if epochs is None:
            epochs = usual_epochs(num_train, batch_size * self.accumulate, head_classes)
        return dataclasses.replace(self, epochs=epochs, batch_size=batch_size, **chosen)

    @property
    def images_only(self) -> list[str]:
        """The settings that are chosen here and make sense for images alone."""
        chosen = {
            "shift": self.shift > 0,
            "flip": self.flip,
            "augment": self.augment != NONE,
            "mixup": self.mixup > 0,
        }
        return [name for name, is_chosen in chosen.items() if is_chosen]

    @property
    def is_balanced(self) -> bool:
        """Whether samples count or come otherwise than the data have them."""
        return self.class_weight is not None or self.sampler == BALANCED

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain data, by name."""
        return dataclasses.asdict(self)


def usual_batch_size(num_train: int) -> int:
    """A power of two, so that an epoch has about 64 batches, from 16 to 256."""
    power = round(math.log2(max(num_train / BATCHES_OF_AN_EPOCH, 1)))
    size: int = 2**power
    return min(max(size, LEAST_BATCH), LARGEST_BATCH)


def usual_epochs(num_train: int, samples_of_step: int, head_classes: int | None = None) -> int:
    """As many as make enough steps for so many samples; head_classes: as for `TrainingSettings.resolved`."""
    steps = enough_steps(num_train)
    if head_classes is not None:
        steps = max(LEAST_STEPS_OF_HEAD, math.ceil(steps * min(1.0, head_classes / CLASSES_OF_ALL_STEPS)))
    steps_of_epoch = math.ceil(num_train / samples_of_step)
    return max(math.ceil(steps / steps_of_epoch), LEAST_EPOCHS)


def enough_steps(num_train: int) -> int:
    """1,000 for up to 1,000 samples, 3,500 from 16,000 on, between them by the logarithm of the number."""
    share = math.log(max(num_train, 1) / LEAST_STEPS) / math.log(ENOUGH_SAMPLES / LEAST_STEPS)
    share = min(max(share, 0.0), 1.0)
    return round(LEAST_STEPS + share * (ENOUGH_STEPS - LEAST_STEPS))


def usual_weight_decay(num_train: int) -> float:
    """1 for up to 1,000 samples; then it falls as their number grows."""
    return LARGEST_DECAY * min(1.0, SAMPLES_OF_LARGEST_DECAY / num_train)


def former_settings() -> dict[str, Any]:
    """What every setting was in runs from before it could be set."""
    return TrainingSettings().resolved(1).to_dict()


def settings_for_part(settings: TrainingSettings, num_train: int, num_part: int) -> TrainingSettings:
    """Settings for a part of the samples that they were chosen for, with about as many steps."""
    assert settings.epochs is not None
    epochs = settings.epochs * _num_steps(settings, num_train) / _num_steps(settings, num_part)
    return dataclasses.replace(settings, epochs=max(1, round(epochs)))


def _num_steps(settings: TrainingSettings, count: int) -> int:
    """Steps of an epoch of so many samples."""
    assert settings.batch_size is not None
    batches = math.ceil(count / settings.batch_size)
    if batches > 1 and count % settings.batch_size == 1:
        batches -= 1  # one sample left over joins the batch before it
    return math.ceil(batches / settings.accumulate)


def _require_one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"{name} must be one of {', '.join(known)}, got {value!r}")


def _require_below_one(name: str, value: float) -> None:
    require_number(name, value)
    if value >= 1:
        raise InputError(f"{name} must be a number from 0 to below 1, got {value!r}")


def _checked_class_weight(weight: object) -> str | tuple[float, ...]:
    if isinstance(weight, str) and weight == BALANCED:
        return BALANCED
    if hasattr(weight, "tolist"):  # an array, as scikit-learn's compute_class_weight gives it
        weight = weight.tolist()
    expected = "class_weight must be 'balanced', or a number from 0 on for each class"
    if isinstance(weight, str) or not isinstance(weight, Sequence):
        raise InputError(f"{expected}, got {weight!r}")
    for number in weight:
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < math.inf:
            raise InputError(f"{expected}, got {number!r} among them")
    numbers = tuple(float(number) for number in weight)
    if not any(numbers):
        raise InputError(f"{expected}, and not all of them 0, got {list(weight)}")
    return numbers
