"""How to train: everything that a run's result depends on, beside method, network and data."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from nescio._checks import require_bool, require_number, require_whole
from nescio.errors import InputError

LARGEST_SEED = 2**32 - 1
SCHEDULES = ("cosine", "constant")
PRECISIONS = ("auto", "float32", "bfloat16", "float64")


@dataclass(frozen=True)
class TrainingSettings:
    """How to train.

    Args:
        epochs: Passes over the training data.
        batch_size: Samples of a step.
        learning_rate: Initial learning rate of Adam.
        schedule: "cosine" lowers the learning rate to zero over all epochs, "constant" keeps it.
        shift: Images are moved by up to so many pixels, anew in every epoch.
        flip: Whether images are mirrored at random.
        patience: Stop after so many epochs without a lower held-out loss, and keep the best weights. None
            never stops early.
        seed: Seed of everything random: the order of samples, augmentation, dropout.
        device: "cpu", "cuda", "mps", or "auto" for the accelerator if there is one.
        precision: "float32", "bfloat16", "float64", or "auto" for bfloat16 where the hardware is faster with
            it.

    Raises:
        InputError: If a setting has a value that can't be.

    Example:
        >>> settings = TrainingSettings(epochs=30, patience=5)
        >>> settings.to_dict()["batch_size"]
        256
        >>> TrainingSettings(epochs=0)
        Traceback (most recent call last):
        ...
        nescio.errors.InputError: epochs must be a whole number from 1 on, got 0
    """

    epochs: int = 15
    batch_size: int = 256
    learning_rate: float = 1e-3
    schedule: str = "cosine"
    shift: int = 0
    flip: bool = False
    patience: int | None = None
    seed: int = 0
    device: str = "auto"
    precision: str = "auto"

    def __post_init__(self) -> None:
        require_whole("epochs", self.epochs)
        require_whole("batch_size", self.batch_size)
        require_whole("shift", self.shift, least=0)
        require_bool("flip", self.flip)
        require_whole("seed", self.seed, least=0, most=LARGEST_SEED)
        if self.patience is not None:
            require_whole("patience", self.patience)
        require_number("learning_rate", self.learning_rate)
        if not self.learning_rate:
            raise InputError("learning_rate must be a positive number, got 0")
        _require_one_of("schedule", self.schedule, SCHEDULES)
        _require_one_of("precision", self.precision, PRECISIONS)

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain data, by name."""
        return dataclasses.asdict(self)


def _require_one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"{name} must be one of {', '.join(known)}, got {value!r}")
