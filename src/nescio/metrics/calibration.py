"""Whether predictions are right, and whether their probabilities say how often they are."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nescio._checks import require_whole
from nescio.metrics.inputs import flat, require_labels, require_probabilities
from nescio.opinions.categorical import Prediction


@dataclass(frozen=True, eq=False)
class Reliability:
    """Mean confidence, accuracy and number of samples per bin, (B,) each; an empty bin has NaN means."""

    confidence: Tensor
    accuracy: Tensor
    count: Tensor


def right_argmax(prediction: Prediction, labels: Tensor) -> Tensor:
    """Whether the class of the greatest raw output is the true one, (...) as (M,)."""
    require_probabilities(prediction)
    truth = require_labels(prediction, labels)
    return flat(prediction.labels) == truth


def right_answers(prediction: Prediction, labels: Tensor) -> Tensor:
    """As `right_argmax`, but no answer at all (u = 1) is wrong, as in the paper; (...) as (M,)."""
    return right_argmax(prediction, labels) & ~flat(prediction.is_vacuous)


def accuracy(prediction: Prediction, labels: Tensor) -> float:
    """Share of right answers; a rejected sample (u = 1) counts as wrong, as in the paper."""
    return float(right_answers(prediction, labels).double().mean())


def raw_accuracy(prediction: Prediction, labels: Tensor) -> float:
    """Share of samples whose greatest raw output is the true class's, whether there is evidence or not."""
    return float(right_argmax(prediction, labels).double().mean())


def answered_share(prediction: Prediction) -> float:
    """Share of samples with an answer: with any evidence at all (u < 1)."""
    return float((~flat(prediction.is_vacuous)).double().mean())


def answered_accuracy(prediction: Prediction, labels: Tensor) -> float:
    """Share of right answers among the samples with an answer; NaN where there is none."""
    return float(right_answers(prediction, labels)[~flat(prediction.is_vacuous)].double().mean())


def negative_log_likelihood(prediction: Prediction, labels: Tensor) -> float:
    """Mean of -ln p_y in nats; a zero is taken as the smallest normal number of its type."""
    p = require_probabilities(prediction)
    truth = require_labels(prediction, labels)
    likelihood = p.gather(1, truth.unsqueeze(1)).clamp_min(torch.finfo(p.dtype).tiny)
    return float(-likelihood.double().log().mean())


def brier_score(prediction: Prediction, labels: Tensor) -> float:
    """Mean over samples of sum_k (p_k - y_k)^2, y one-hot: 0 at best, 2 at worst."""
    p = require_probabilities(prediction).double()
    truth = require_labels(prediction, labels)
    one_hot = torch.nn.functional.one_hot(truth, prediction.num_classes)
    return float((p - one_hot).square().sum(1).mean())


def reliability(prediction: Prediction, labels: Tensor, bins: int = 15) -> Reliability:
    """Samples by their largest probability, in bins [i/B, (i+1)/B) of which the last holds 1 as well."""
    require_whole("bins", bins, least=1)
    right = right_argmax(prediction, labels).double()
    confidence = require_probabilities(prediction).amax(1)
    edges = (torch.arange(1, bins, dtype=torch.float64) / bins).to(confidence.dtype)
    index = torch.bucketize(confidence, edges, right=True)
    count = index.bincount(minlength=bins)
    total = index.bincount(confidence.double(), minlength=bins)
    return Reliability(total / count, index.bincount(right, minlength=bins) / count, count)


def expected_calibration_error(prediction: Prediction, labels: Tensor, bins: int = 15) -> float:
    """sum_b n_b / N |accuracy_b - confidence_b| over the bins of `reliability`.

    torchmetrics has this too, but gives a confidence of exactly 1 a bin of its own.
    """
    found = reliability(prediction, labels, bins)
    gap = (found.accuracy - found.confidence).abs() * found.count
    return float(gap.nansum() / found.count.sum())
