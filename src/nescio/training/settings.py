"""How to train: everything that a run's result depends on, beside method, network and data."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from nescio._checks import require_number, require_whole
from nescio.errors import InputError

LARGEST_SEED = 2**32 - 1
SCHEDULES = ("cosine", "constant")
PRECISIONS = ("auto", "float32", "bfloat16", "float64")


@dataclass(frozen=True)
class TrainingSettings:
    """shift: images are moved by up to so many pixels, flip: mirrored by chance, anew in every epoch.

    patience: stop when the held-out loss has not improved for so many epochs, and keep the best; None never.
    device and precision "auto": the accelerator if there is one, bfloat16 where the hardware does it.
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
        require_whole("seed", self.seed, least=0)
        if self.seed > LARGEST_SEED:
            raise InputError(f"seed must be at most {LARGEST_SEED}, got {self.seed}")
        if self.patience is not None:
            require_whole("patience", self.patience)
        require_number("learning_rate", self.learning_rate)
        if not self.learning_rate:
            raise InputError("learning_rate must be a positive number, got 0")
        for name, known in (("schedule", SCHEDULES), ("precision", PRECISIONS)):
            if getattr(self, name) not in known:
                raise InputError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)
