"""What the functions here are given: checked, and brought to one flat batch on the CPU."""

from __future__ import annotations

import torch
from torch import Tensor

from nescio import _checks
from nescio._checks import SUM_TOLERANCE, describe, require_floating
from nescio.errors import InputError
from nescio.opinions.categorical import Prediction


def flat(tensor: Tensor) -> Tensor:
    """All the samples on one axis, without a gradient, on the CPU: (...) to (M,)."""
    return tensor.detach().cpu().reshape(-1)


def require_probabilities(prediction: Prediction, name: str = "prediction") -> Tensor:
    """Return the probabilities (..., K) as (M, K); refuse none at all, and rows that do not sum to 1."""
    if not isinstance(getattr(prediction, "probabilities", None), Tensor):
        raise InputError(f"{name} must be an Opinion or a Categorical, got {describe(prediction)}")
    given = require_floating(f"{name}.probabilities", prediction.probabilities, class_axis=-1)
    if not given.numel():
        raise InputError(f"{name} must have one sample or more, got {describe(given)}")
    rows = given.detach().cpu().reshape(-1, given.shape[-1])
    least, most = rows.aminmax()
    low, high = rows.sum(-1).aminmax()
    if not (least >= 0 and low >= 1 - SUM_TOLERANCE and high <= 1 + SUM_TOLERANCE):
        found = f"values {float(least):g} to {float(most):g}, sums {float(low):g} to {float(high):g}"
        raise InputError(f"{name}.probabilities must be zero or more and sum to 1, got {found}")
    return rows


def require_labels(prediction: Prediction, labels: Tensor) -> Tensor:
    """Return true classes (...) of a prediction as (M,); refuse all but whole numbers from 0 to K - 1."""
    shape = prediction.probabilities.shape[:-1]
    return flat(_checks.require_labels(labels, shape, prediction.num_classes)).long()


def require_accepted(accepted: Tensor, labels: Tensor) -> Tensor:
    """Return whether a model stands by each answer, (...) as (M,); refuse all but a bool for each label."""
    if not isinstance(accepted, Tensor) or accepted.dtype != torch.bool or accepted.shape != labels.shape:
        expected = f"a bool tensor of shape {tuple(labels.shape)}"
        raise InputError(f"accepted must be {expected}, got {describe(accepted)}")
    return flat(accepted)


def require_scores(name: str, scores: Tensor) -> Tensor:
    """Return scores (...) as float64 (M,); refuse none, and those that are not finite."""
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        raise InputError(f"{name} must be a tensor of floating point numbers, got {describe(scores)}")
    if not scores.numel():
        raise InputError(f"{name} must have one value or more, got {describe(scores)}")
    if not bool(scores.isfinite().all()):
        raise InputError(f"{name} must be finite, got NaN or infinity in {describe(scores)}")
    return flat(scores).double()


def require_correct(correct: Tensor, scores: Tensor) -> Tensor:
    """Return whether each answer is right, (...) as (M,); refuse all but a bool for each score."""
    if not isinstance(correct, Tensor) or correct.dtype != torch.bool or correct.shape != scores.shape:
        expected = f"a bool tensor of shape {tuple(scores.shape)}"
        raise InputError(f"correct must be {expected}, got {describe(correct)}")
    return flat(correct)
