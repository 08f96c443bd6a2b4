"""What a training is watched for: a loss that is no number, dead evidence, a network that learns nothing."""

from __future__ import annotations

import math
import warnings

from torch import Tensor

from nescio.errors import NescioWarning, TrainingError
from nescio.training.run import Metrics

STUCK_EPOCHS, STUCK_STEPS = 3, 100  # after so many of both, a network should be better than chance


def require_finite(loss: float, epoch: int) -> None:
    """A loss that is no number can't be trained on."""
    if not math.isfinite(loss):
        raise TrainingError(f"the loss became {loss} in epoch {epoch + 1}; lower the learning rate")


def dead_classes(most: Tensor | None) -> set[int]:
    """Those whose greatest evidence (K,) is none: their outputs get no gradient any more."""
    return set() if most is None else set((most == 0).nonzero().flatten().tolist())


def warn_of_dead_evidence(dead: set[int], epoch: int) -> None:
    """Say which classes had no evidence on any input, and what to do."""
    names = ", ".join(str(one) for one in sorted(dead)[:5]) + (", ..." if len(dead) > 5 else "")
    warnings.warn(
        f"class {names}: no evidence on any input of epoch {epoch + 1}, so its outputs are dead and will "
        "not learn; use evidence='exp', or another seed",
        NescioWarning,
        stacklevel=5,
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
            NescioWarning,
            stacklevel=3,
        )
