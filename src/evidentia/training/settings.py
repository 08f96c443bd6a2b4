"""How to train: everything that a run's result depends on, beside method, network and data."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from evidentia.errors import InputError

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
        for name in ("epochs", "batch_size"):
            if not (isinstance(getattr(self, name), int) and getattr(self, name) >= 1):
                raise InputError(f"{name} must be a whole number from 1 on, got {getattr(self, name)!r}")
        if not 0 < self.learning_rate < float("inf"):
            raise InputError(f"learning_rate must be a positive number, got {self.learning_rate}")
        if self.schedule not in SCHEDULES:
            raise InputError(f"schedule must be one of {', '.join(SCHEDULES)}, got {self.schedule!r}")
        if self.precision not in PRECISIONS:
            raise InputError(f"precision must be one of {', '.join(PRECISIONS)}, got {self.precision!r}")
        if self.shift < 0 or (self.patience is not None and self.patience < 1):
            raise InputError(f"shift and patience can't be negative, got {self.shift}, {self.patience}")
        if not (isinstance(self.seed, int) and self.seed >= 0):
            raise InputError(f"seed must be a whole number from 0 on, got {self.seed!r}")

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)
