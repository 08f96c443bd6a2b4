"""Selective prediction: what is gained by answering only where the uncertainty is low."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nescio._checks import describe
from nescio.errors import InputError
from nescio.metrics.calibration import right_answers
from nescio.metrics.inputs import flat, require_correct, require_scores
from nescio.opinions.categorical import Prediction


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """Share of samples accepted and share of errors among them, (T,) each, T distinct uncertainties."""

    coverage: Tensor
    risk: Tensor


@dataclass(frozen=True, eq=False)
class ThresholdCurve:
    """Accuracy and share of the samples with u <= threshold, (T,) each; NaN accuracy of none."""

    threshold: Tensor
    accuracy: Tensor
    coverage: Tensor


def risk_coverage(uncertainty: Tensor, correct: Tensor) -> RiskCoverage:
    """Risk against coverage as samples (...) are accepted by rising uncertainty, ties together."""
    ordered, order = require_scores("uncertainty", uncertainty).sort()
    wrong = ~require_correct(correct, uncertainty)
    accepted = torch.arange(1, len(ordered) + 1, dtype=torch.float64)
    ends = torch.cat([ordered[1:] != ordered[:-1], torch.ones(1, dtype=torch.bool)])
    risk = wrong[order].cumsum(0) / accepted
    return RiskCoverage(accepted[ends] / len(ordered), risk[ends])


def area_under_risk_coverage(uncertainty: Tensor, correct: Tensor) -> float:
    """AURC, 1/N sum_i r_i: r_i is the error rate of all samples no more uncertain than sample i."""
    curve = risk_coverage(uncertainty, correct)
    share = curve.coverage.diff(prepend=curve.coverage.new_zeros(1))
    return float((share * curve.risk).sum())


def excess_area(uncertainty: Tensor, correct: Tensor) -> float:
    """E-AURC: the AURC less that of a ranking that puts every right answer before every wrong one."""
    area = area_under_risk_coverage(uncertainty, correct)
    best = flat(correct).sort(descending=True).values
    return max(0.0, area - area_under_risk_coverage(torch.arange(len(best)).double(), best))


def accuracy_against_threshold(
    prediction: Prediction, labels: Tensor, thresholds: Tensor | None = None
) -> ThresholdCurve:
    """Accuracy and coverage of the samples with u <= threshold, for thresholds (T,), by default 0, 0.01 .. 1.

    A rejected sample (u = 1) counts as wrong: at threshold 1 this is `accuracy`.
    """
    right = right_answers(prediction, labels)
    require_scores("prediction.uncertainty", prediction.uncertainty)
    u = flat(prediction.uncertainty).clamp_max(1)  # a normalised entropy can round to above 1
    thresholds = torch.arange(101).double() / 100 if thresholds is None else _checked(thresholds)
    ordered, order = u.sort()
    # In the type of u: the float32 nearest to 0.1 is not above a threshold of 0.1.
    accepted = torch.searchsorted(ordered, thresholds.to(u.dtype), right=True)
    hits = torch.nn.functional.pad(right[order].cumsum(0), (1, 0)).double()
    return ThresholdCurve(thresholds, hits[accepted] / accepted, accepted.double() / len(u))


def _checked(thresholds: Tensor) -> Tensor:
    values = require_scores("thresholds", thresholds)
    if thresholds.ndim != 1:
        raise InputError(f"thresholds must have one axis, got {describe(thresholds)}")
    return values
