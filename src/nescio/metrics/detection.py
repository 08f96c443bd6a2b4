"""Detection of strangers: whether inputs of no known class can be told by how uncertain the prediction is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nescio._checks import require_whole
from nescio.errors import InputError
from nescio.metrics.inputs import require_probabilities, require_scores
from nescio.opinions.categorical import Prediction
from nescio.opinions.opinion import Opinion


@dataclass(frozen=True)
class Detection:
    """Areas under the ROC and the precision-recall curve, and the false alarms at 95% caught."""

    auroc: float
    aupr: float
    fpr95: float


@dataclass(frozen=True, eq=False)
class EntropyCDF:
    """Share of samples whose entropy in nats is at most this, (P,) each."""

    entropy: Tensor
    share: Tensor


def detection(known: Tensor, unknown: Tensor) -> Detection:
    """How well scores (N,), (M,) that are higher for the unknown tell it; unknown is the positive class.

    aupr is the average precision; fpr95 the share of known samples at or above the highest threshold
    that at least 95% of the unknown reach.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    known, unknown = require_scores("known", known), require_scores("unknown", unknown)
    truth = torch.cat([torch.zeros_like(known), torch.ones_like(unknown)]).numpy()
    scores = torch.cat([known, unknown]).numpy()
    auroc, aupr = roc_auc_score(truth, scores), average_precision_score(truth, scores)
    return Detection(float(auroc), float(aupr), _false_alarms(known, unknown))


def _false_alarms(known: Tensor, unknown: Tensor) -> float:
    """FPR95: one in twenty of the unknown, rounded down, may be missed."""
    threshold = unknown.kthvalue(len(unknown) // 20 + 1).values
    return float((known >= threshold).double().mean())


def measures(prediction: Prediction) -> dict[str, Tensor]:
    """Every score of a prediction, (...) each, higher for the stranger; an Opinion has more of them."""
    require_probabilities(prediction)
    scores = {"entropy": prediction.entropy(), "max_probability": 1 - prediction.max_probability()}
    if isinstance(prediction, Opinion):
        scores["uncertainty"] = prediction.uncertainty
        scores["mutual_information"] = prediction.mutual_information()
        scores["expected_entropy"] = prediction.expected_entropy()
        scores["differential_entropy"] = prediction.differential_entropy()
        scores["dissonance"] = prediction.dissonance()
    return scores


def detection_by_measure(known: Prediction, unknown: Prediction) -> dict[str, Detection]:
    """`detection` by each of the `measures`; both predictions are of one kind and of the same classes."""
    for name, prediction in (("known", known), ("unknown", unknown)):
        require_probabilities(prediction, name)
    ours, theirs = measures(known), measures(unknown)
    if known.num_classes != unknown.num_classes or ours.keys() != theirs.keys():
        raise InputError(f"unknown must be of the kind of known, {known!r}, got {unknown!r}")
    return {name: detection(ours[name], theirs[name]) for name in ours}


def entropy_cdf(prediction: Prediction, points: int = 101) -> EntropyCDF:
    """Empirical distribution of the entropy, at points (P,) evenly spaced over [0, ln K]."""
    require_whole("points", points, least=2)
    most = math.log(require_probabilities(prediction).shape[1])
    entropy = require_scores("prediction.entropy()", prediction.entropy()).clamp(0, most)
    at = torch.arange(points).double() / (points - 1) * most
    count = torch.searchsorted(entropy.sort().values, at, right=True)
    return EntropyCDF(at, count.double() / len(entropy))
