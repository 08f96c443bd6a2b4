"""Selective prediction: what is gained by answering only where the uncertainty is low."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nescio._checks import describe
from nescio.errors import InputError
from nescio.metrics._inputs import flat, require_correct, require_scores
from nescio.metrics.calibration import right_answers
from nescio.opinions.categorical import Prediction


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """The error of what is accepted, by how much is accepted.

    Args:
        coverage: Share of samples accepted, (T,) for T distinct uncertainties.
        risk: Share of errors among them, (T,).

    Example:
        >>> import torch
        >>> from nescio.metrics import RiskCoverage
        >>> RiskCoverage(coverage=torch.tensor([0.5, 1.0]), risk=torch.tensor([0.0, 0.5])).risk
        tensor([0.0000, 0.5000])
    """

    coverage: Tensor
    risk: Tensor


@dataclass(frozen=True, eq=False)
class ThresholdCurve:
    """What is left where the uncertainty is limited.

    Args:
        threshold: The most uncertainty that is accepted, (T,).
        accuracy: Accuracy of the samples with u <= threshold, (T,); NaN where there are none.
        coverage: Their share, (T,).

    Example:
        >>> import torch
        >>> from nescio.metrics import ThresholdCurve
        >>> ones = torch.ones(1)
        >>> ThresholdCurve(threshold=ones, accuracy=0.9 * ones, coverage=ones).accuracy
        tensor([0.9000])
    """

    threshold: Tensor
    accuracy: Tensor
    coverage: Tensor


def risk_coverage(uncertainty: Tensor, correct: Tensor) -> RiskCoverage:
    """Risk against coverage as samples are accepted by rising uncertainty, ties together.

    Args:
        uncertainty: Uncertainty of samples (...).
        correct: Whether each answer is right, (...) bool.

    Returns:
        Coverage and risk at each distinct uncertainty.

    Raises:
        InputError: If they are not such tensors of one shape.

    Example:
        >>> import torch
        >>> from nescio.metrics import risk_coverage
        >>> uncertainty = torch.tensor([0.1, 0.2, 0.8, 0.9])
        >>> correct = torch.tensor([True, False, True, False])
        >>> risk_coverage(uncertainty, correct).risk
        tensor([0.0000, 0.5000, 0.3333, 0.5000], dtype=torch.float64)
    """
    ordered, order = require_scores("uncertainty", uncertainty).sort()
    wrong = ~require_correct(correct, uncertainty)
    accepted = torch.arange(1, len(ordered) + 1, dtype=torch.float64, device=ordered.device)
    ends = torch.cat([ordered[1:] != ordered[:-1], torch.ones(1, dtype=torch.bool, device=ordered.device)])
    risk = wrong[order].cumsum(0) / accepted
    return RiskCoverage(accepted[ends] / len(ordered), risk[ends])


def area_under_risk_coverage(uncertainty: Tensor, correct: Tensor) -> float:
    """AURC, 1/N sum_i r_i: r_i is the error rate of all samples no more uncertain than sample i.

    Args:
        uncertainty: Uncertainty of samples (...).
        correct: Whether each answer is right, (...) bool.

    Returns:
        The area, 0 at best.

    Raises:
        InputError: If they are not such tensors of one shape.

    Example:
        >>> import torch
        >>> from nescio.metrics import area_under_risk_coverage
        >>> uncertainty = torch.tensor([0.1, 0.2, 0.8, 0.9])
        >>> correct = torch.tensor([True, False, True, False])
        >>> round(area_under_risk_coverage(uncertainty, correct), 4)
        0.3333
    """
    curve = risk_coverage(uncertainty, correct)
    share = curve.coverage.diff(prepend=curve.coverage.new_zeros(1))
    return float((share * curve.risk).sum())


def excess_area(uncertainty: Tensor, correct: Tensor) -> float:
    """E-AURC: the AURC less that of a ranking that puts every right answer before every wrong one.

    Args:
        uncertainty: Uncertainty of samples (...).
        correct: Whether each answer is right, (...) bool.

    Returns:
        The excess, 0 at best.

    Raises:
        InputError: If they are not such tensors of one shape.

    Example:
        >>> import torch
        >>> from nescio.metrics import excess_area
        >>> uncertainty = torch.tensor([0.1, 0.2, 0.8, 0.9])
        >>> correct = torch.tensor([True, False, True, False])
        >>> round(excess_area(uncertainty, correct), 4)
        0.125
    """
    area = area_under_risk_coverage(uncertainty, correct)
    best = flat(correct).sort(descending=True).values
    in_order = torch.arange(len(best), dtype=torch.float64, device=best.device)
    return max(0.0, area - area_under_risk_coverage(in_order, best))


def area_under_generalized_risk_coverage(uncertainty: Tensor, correct: Tensor) -> float:
    """AUGRC: the area under the share of all samples that are accepted and wrong, by the share accepted.

    The risk of `risk_coverage` is that of an accepted sample, and weighs the few most certain samples most.
    The generalized risk is that of any sample, an error that is not held back, so every error counts alike
    (Traub et al. 2024). Samples of one uncertainty are accepted together, and the curve is straight between
    its points. With a the accuracy, and AUROC of the errors by the uncertainty,

        AUGRC = a (1 - a) (1 - AUROC) + (1 - a)^2 / 2

    Args:
        uncertainty: Uncertainty of samples (...).
        correct: Whether each answer is right, (...) bool.

    Returns:
        The area, from 0 at best to a half.

    Raises:
        InputError: If they are not such tensors of one shape.

    Example:
        >>> import torch
        >>> from nescio.metrics import area_under_generalized_risk_coverage
        >>> uncertainty = torch.tensor([0.1, 0.2, 0.8, 0.9])
        >>> correct = torch.tensor([True, False, True, False])
        >>> area_under_generalized_risk_coverage(uncertainty, correct)
        0.1875
    """
    curve = risk_coverage(uncertainty, correct)
    coverage = torch.nn.functional.pad(curve.coverage, (1, 0))  # from where nothing is accepted
    errors = torch.nn.functional.pad(curve.coverage * curve.risk, (1, 0))
    return float(torch.trapezoid(errors, coverage))


def accuracy_against_threshold(
    prediction: Prediction, labels: Tensor, thresholds: Tensor | None = None
) -> ThresholdCurve:
    """Accuracy and coverage of the samples with u <= threshold, as in the paper's second figure.

    A vacuous sample (u = 1) counts as wrong: at threshold 1 this is `accuracy`.

    Args:
        prediction: Prediction of inputs (...).
        labels: Their true classes (...), whole numbers.
        thresholds: (T,), by default 0, 0.01 .. 1.

    Returns:
        Accuracy and coverage at each threshold.

    Raises:
        InputError: If the arguments do not fit.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.metrics import accuracy_against_threshold
        >>> opinion = Opinion(torch.tensor([[18.0, 0.0], [2.0, 0.0]]))  # u is 0.1 and 0.5
        >>> curve = accuracy_against_threshold(opinion, torch.tensor([0, 1]), torch.tensor([0.2, 1.0]))
        >>> curve.accuracy
        tensor([1.0000, 0.5000], dtype=torch.float64)
    """
    right = right_answers(prediction, labels)
    require_scores("prediction.uncertainty", prediction.uncertainty)
    u = flat(prediction.uncertainty)
    limits = torch.arange(101, dtype=torch.float64, device="cpu") / 100
    if thresholds is not None:
        limits = _checked(thresholds)
    ordered, order = u.sort()
    # In the type of u: the float32 nearest to 0.1 is not above a threshold of 0.1.
    accepted = torch.searchsorted(ordered, limits.to(u.dtype), right=True)
    hits = torch.nn.functional.pad(right[order].cumsum(0), (1, 0)).double()
    return ThresholdCurve(limits, hits[accepted] / accepted, accepted.double() / len(u))


def _checked(thresholds: Tensor) -> Tensor:
    values = require_scores("thresholds", thresholds)
    if thresholds.ndim != 1:
        raise InputError(f"thresholds must have one axis, got {describe(thresholds)}")
    return values
