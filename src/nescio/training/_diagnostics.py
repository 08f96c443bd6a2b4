"""What a training is watched for: a loss that is no number, dead evidence, a network that learns nothing."""

from __future__ import annotations

import math
import warnings

from torch import Tensor

from nescio.errors import NescioWarning, TrainingError

# After so many of both, a network should be better than guessing.
STUCK_EPOCHS = 3
STUCK_STEPS = 100


def require_finite(loss: float, epoch: int) -> None:
    """Stop a training whose loss is no number any more."""
    if not math.isfinite(loss):
        raise TrainingError(f"the loss became {loss} in epoch {epoch + 1}; lower the learning rate")


def find_dead_classes(greatest_evidence: Tensor | None) -> set[int]:
    """Classes whose greatest evidence (K,) is zero: their outputs get no gradient any more."""
    if greatest_evidence is None:
        return set()
    return set((greatest_evidence == 0).nonzero().flatten().tolist())


def warn_of_dead_classes(dead: set[int], epoch: int) -> None:
    """Say which classes had no evidence on any input, and what to do."""
    names = ", ".join(str(label) for label in sorted(dead)[:5])
    if len(dead) > 5:
        names += ", ..."
    warnings.warn(
        f"class {names}: no evidence on any input of epoch {epoch + 1}, so its outputs are dead and will "
        "not learn; use evidence='exp', or another seed",
        NescioWarning,
        stacklevel=5,
    )


def is_guessing(accuracy: float, labels: Tensor) -> bool:
    """Whether naming the commonest class of these labels (N,) would do as well, but for chance."""
    commonest = float(labels.bincount().max()) / len(labels)
    deviation = math.sqrt(commonest * (1 - commonest) / len(labels))
    return accuracy <= commonest + 3 * deviation


def stuck_after(steps: int) -> int:
    """The epoch of so many steps after which guessing means that something is wrong."""
    return max(STUCK_EPOCHS, math.ceil(STUCK_STEPS / steps))


def warn_if_stuck(accuracies: list[float], steps: int, labels: Tensor) -> None:
    """Say it once, as soon as it is sure, when the epochs so far are no better than guessing."""
    epochs = len(accuracies)
    if epochs == stuck_after(steps) and is_guessing(accuracies[-1], labels):
        warnings.warn(
            f"after {epochs} epochs the accuracy is {accuracies[-1]:.3f}, as good as guessing; "
            "lower the learning rate or, for edl, divergence_weight",
            NescioWarning,
            stacklevel=3,
        )


def warn_if_diverged(accuracies: list[float], steps: int, labels: Tensor) -> None:
    """Say it when a training that had learned something ends with guesses."""
    if len(accuracies) > stuck_after(steps) and is_guessing(accuracies[-1], labels):
        best = max(accuracies)
        if not is_guessing(best, labels):
            warnings.warn(
                f"the training diverged: its accuracy was {best:.3f} and is {accuracies[-1]:.3f} at the end, "
                "as good as guessing; lower the learning rate",
                NescioWarning,
                stacklevel=3,
            )
