"""What a training is watched for: a loss that is no number, dead evidence, a network that learns nothing."""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor

from nescio._checks import listed
from nescio._precision import to_float64
from nescio.errors import NescioWarning, TrainingError

# After so many of both, a network should be better than guessing.
STUCK_EPOCHS = 3
STUCK_STEPS = 100
# So many training samples are enough to see whether a network has learned anything.
LOOKED_AT = 2_000
# What is nearer to perfect than to guessing is no guessing, however few samples there are.
SHARE_OF_CHANCE = 0.75


def require_finite(loss: float, epoch: int) -> None:
    """Stop a training whose loss is no number any more."""
    if not math.isfinite(loss):
        raise TrainingError(
            f"the training has diverged: the loss became {loss} in epoch {epoch + 1}; lower the learning rate"
        )


def refuse_outputs(epoch: int, learning_rate: float) -> TrainingError:
    """The error for a network whose outputs are no numbers any more."""
    return TrainingError(
        f"the training has diverged: the network's outputs are not finite in epoch {epoch + 1}; lower the "
        f"learning rate (it is {learning_rate:g})"
    )


def find_dead_classes(greatest_evidence: Tensor | None) -> set[int]:
    """Classes whose greatest evidence (K,) is zero: their outputs get no gradient any more."""
    if greatest_evidence is None:
        return set()
    return set((greatest_evidence == 0).nonzero().flatten().tolist())


def warn_of_dead_classes(dead: set[int], epoch: int) -> None:
    """Say which classes had no evidence on any input, and what to do."""
    names = listed(sorted(dead))
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
    return accuracy <= commonest + _margin(commonest, deviation)


def mean_recall(found: Tensor, labels: Tensor) -> float:
    """The share of each class of the labels (N,) that was found (N,), averaged over the classes."""
    right = labels[found == labels].bincount(minlength=int(labels.max()) + 1)
    counts = labels.bincount()
    present = counts > 0
    return float((right[present] / counts[present]).mean())


def finds_nothing(found: Tensor, labels: Tensor) -> bool:
    """Whether answers (N,) are no better than one answer for all, or any by lot, but for chance.

    By the mean recall, which is 1 / K then, however rare a class is.
    """
    counts = labels.bincount()
    present = to_float64(counts[counts > 0])
    chance = 1 / len(present)
    deviation = math.sqrt(float((chance * (1 - chance) / present).sum())) / len(present)
    return mean_recall(found, labels) <= chance + _margin(chance, deviation)


def _margin(chance: float, deviation: float) -> float:
    return min(3 * deviation, SHARE_OF_CHANCE * (1 - chance))


def some_of(count: int) -> Tensor:
    """Positions of some of so many samples, spread over all of them."""
    step = max(count // LOOKED_AT, 1)
    return torch.arange(0, count, step)[:LOOKED_AT]


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


def warn_of_guessing(accuracies: list[float], steps: int, labels: Tensor, learning_rate: float) -> None:
    """Say of a training that has ended with guesses what may be wrong, and what to do.

    accuracies: of each epoch; steps: of one epoch.
    """
    all_steps = steps * len(accuracies)
    best = max(accuracies)
    if all_steps < STUCK_STEPS:
        message = (
            f"the training had only {all_steps} steps and is as good as guessing; train for more epochs, or "
            "with a smaller batch_size"
        )
    elif not is_guessing(best, labels):
        message = (
            f"the training has diverged: its accuracy was {best:.3f} and is {accuracies[-1]:.3f} at the end, "
            f"as good as guessing; lower the learning rate (it is {learning_rate:g})"
        )
    else:
        message = (
            "the training has learned nothing: it ends as good as guessing, with the same answer for nearly "
            f"everything; try a lower learning rate (it is {learning_rate:g}), look at the labels or, for "
            "edl, lower divergence_weight"
        )
    warnings.warn(message, NescioWarning, stacklevel=3)
