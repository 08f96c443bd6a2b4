"""The three risks of the paper and the divergence, on evidence, per sample, without reduction.

evidence (N, K, d1, ...), zero or more, the class on axis 1; targets class indices (N, d1, ...) or soft
labels (N, K, d1, ...) that sum to one; result (N, d1, ...), 0 where the target is `ignore_index`.

Form is always checked. Values (evidence below zero, NaN, a label out of range, soft labels that do not
sum to one) are looked at on the CPU, where that costs next to nothing; on other devices it would make the
program wait, so there it is done with validate=True only. Evidence is held at 1e15.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nescio._checks import as_computed, describe, looks_at_values, require_evidence, require_floating
from nescio.errors import InputError
from nescio.functional import dirichlet
from nescio.functional._kernels.autograd import row_loss
from nescio.functional._kernels.rowwise import Risk, RiskTerms, RowLoss

IGNORE_INDEX = -100
MISLEADING = RowLoss(divergence_weight=1.0)
SUM_TOLERANCE = 1e-3  # of soft labels, which may come in half precision


def type2_likelihood(
    evidence: Tensor, targets: Tensor, ignore_index: int = IGNORE_INDEX, *, validate: bool | None = None
) -> Tensor:
    """Type II maximum likelihood, sum_j y_j (log S - log alpha_j) (equation 3)."""
    return _risk_of_evidence("type2", evidence, targets, ignore_index, validate)


def cross_entropy_risk(
    evidence: Tensor, targets: Tensor, ignore_index: int = IGNORE_INDEX, *, validate: bool | None = None
) -> Tensor:
    """Bayes risk of the cross-entropy, sum_j y_j (psi(S) - psi(alpha_j)) (equation 4)."""
    return _risk_of_evidence("cross_entropy", evidence, targets, ignore_index, validate)


def squared_error_risk(
    evidence: Tensor, targets: Tensor, ignore_index: int = IGNORE_INDEX, *, validate: bool | None = None
) -> Tensor:
    """Bayes risk of the squared error, sum_j (y_j - p_j)^2 + p_j (1 - p_j) / (S + 1) (equation 5)."""
    return _risk_of_evidence("squared_error", evidence, targets, ignore_index, validate)


def misleading_divergence(
    evidence: Tensor, targets: Tensor, ignore_index: int = IGNORE_INDEX, *, validate: bool | None = None
) -> Tensor:
    """KL[D(alpha~) || D(1)], alpha~ = y + (1 - y) alpha: of the evidence for wrong classes."""
    evidence = _checked_evidence(evidence, validate)
    return total_loss("evidence", evidence, targets, MISLEADING, ignore_index, validate)[0]


def divergence(evidence: Tensor, *, validate: bool | None = None) -> Tensor:
    """KL[D(alpha) || D(1)], how far an opinion is from "I do not know"; 0 exactly without evidence."""
    if isinstance(evidence, Tensor) and not evidence.numel():
        raise InputError(f"evidence must hold one or more samples, got {describe(evidence)}")
    return dirichlet.divergence(_checked_evidence(evidence, validate).movedim(1, -1))


def _risk_of_evidence(
    risk: str, evidence: Tensor, targets: Tensor, ignore_index: int, validate: bool | None
) -> Tensor:
    evidence = _checked_evidence(evidence, validate)
    return total_loss("evidence", evidence, targets, RowLoss(risk=RISKS[risk]), ignore_index, validate)[0]


def _checked_evidence(evidence: Tensor, validate: bool | None) -> Tensor:
    require_floating("evidence", evidence, class_axis=1)
    require_evidence(evidence, validate)
    return as_computed(evidence)


def total_loss(
    name: str, x: Tensor, targets: Tensor, loss: RowLoss, ignore_index: int, validate: bool | None
) -> tuple[Tensor, Tensor | None]:
    """risk + divergence of each sample: x (N, K, d1, ...) of evidence or logits, result (N, d1, ...).

    name: what x is called in messages. Beside the losses, which samples were ignored; None if surely none.
    """
    if not isinstance(targets, Tensor):
        raise InputError(f"targets must be a tensor, got {describe(targets)}")
    if not x.numel():
        raise InputError(f"{name} must hold one or more samples, got {describe(x)}")
    if targets.is_floating_point():
        _require_soft_labels(x, targets, validate)
        value, ignored = _shaped(_soft_loss(_as_rows(x), _as_rows(targets), loss), x), None
    else:
        _require_indices(x, targets)
        wanted, ignored = _without_ignored(targets, x.shape[1], ignore_index, validate)
        value = _shaped(row_loss(_as_rows(x), wanted.reshape(-1), loss), x)
    _require_finite(name, x, value, validate)
    return (value, None) if ignored is None else (value.masked_fill(ignored, 0.0), ignored)


def _require_finite(name: str, x: Tensor, value: Tensor, validate: bool | None) -> None:
    # A NaN in x shows in the losses, which are K times fewer to look at.
    if looks_at_values(value, validate) and not math.isfinite(float(value.detach().sum())):
        found = "NaN" if bool(x.isnan().any()) else "infinity"
        raise InputError(f"{name} must be finite numbers, got {found}")


def _as_rows(x: Tensor) -> Tensor:
    """(N, K, d1, ...) as rows (M, K)."""
    return x if x.ndim == 2 else x.movedim(1, -1).reshape(-1, x.shape[1])


def _shaped(value: Tensor, x: Tensor) -> Tensor:
    """(M,) as (N, d1, ...)."""
    return value if x.ndim == 2 else value.view(x.shape[:1] + x.shape[2:])


def _require_indices(x: Tensor, targets: Tensor) -> None:
    expected = tuple(x.shape[:1] + x.shape[2:])
    if targets.dtype != torch.int64 or tuple(targets.shape) != expected:
        raise InputError(
            f"targets must be int64 class indices {expected} or floating soft labels {tuple(x.shape)}, "
            f"got {describe(targets)}"
        )


def _without_ignored(
    targets: Tensor, num_classes: int, ignore_index: int, validate: bool | None
) -> tuple[Tensor, Tensor | None]:
    """Targets that can all be used as an index, and which of them were to be ignored."""
    if looks_at_values(targets, validate) and targets.numel():
        low, high = (int(bound) for bound in targets.aminmax())
        if low >= 0 and high < num_classes and not low <= ignore_index <= high:
            return targets, None
        _require_range(targets, num_classes, ignore_index)
    ignored = targets == ignore_index
    return targets.masked_fill(ignored, 0), ignored


def _require_range(targets: Tensor, num_classes: int, ignore_index: int) -> None:
    wrong = ((targets < 0) | (targets >= num_classes)) & (targets != ignore_index)
    if bool(wrong.any()):
        raise InputError(
            f"targets must be 0..{num_classes - 1} or ignore_index {ignore_index}, "
            f"got {int(targets[wrong][0])}"
        )


def _require_soft_labels(x: Tensor, targets: Tensor, validate: bool | None) -> None:
    if targets.shape != x.shape:
        raise InputError(
            f"targets must be int64 class indices {tuple(x.shape[:1] + x.shape[2:])} "
            f"or floating soft labels {tuple(x.shape)}, got {describe(targets)}"
        )
    if looks_at_values(targets, validate) and targets.numel():
        sums = targets.sum(1, dtype=torch.float64)
        least, worst = float(targets.amin()), float((sums - 1).abs().amax())
        if not (least >= 0 and worst <= SUM_TOLERANCE):
            raise InputError(
                "targets must be soft labels of zero or more that sum to one over the classes, "
                f"got a least value of {least:g} and a sum off by {worst:g}"
            )


def _type2_terms(own: Tensor, total: Tensor, squares: Tensor, num_classes: int) -> RiskTerms:
    alpha, rest = own + 1, total + (num_classes - 1)
    strength = alpha + rest
    return RiskTerms(torch.log1p(rest / alpha), 1 / strength, None, -rest / (strength * alpha))


def _cross_entropy_terms(own: Tensor, total: Tensor, squares: Tensor, num_classes: int) -> RiskTerms:
    alpha, rest = own + 1, total + (num_classes - 1)
    at_strength = dirichlet.trigamma(alpha + rest)
    own_slope = at_strength - dirichlet.trigamma(alpha)
    return RiskTerms(dirichlet.digamma_difference(alpha, rest), at_strength, None, own_slope)


def _squared_error_terms(own: Tensor, total: Tensor, squares: Tensor, num_classes: int) -> RiskTerms:
    """With a = 1 - p_y, p = p_y and q the sum of p_j^2 over the wrong classes: a^2 + q + V / (S + 1),

    V = 1 - p^2 - q = a + a p - q, which does not cancel where p is nearly one.
    """
    alpha, rest = own + 1, total + (num_classes - 1)
    square = squares.add(total, alpha=2).add_(num_classes - 1)
    strength = alpha + rest
    inverse, shrink = strength.reciprocal(), (strength + 1).reciprocal()
    a, p, q = rest * inverse, alpha * inverse, square * (inverse * inverse)
    error, variance = torch.addcmul(q, a, a), torch.addcmul(a, a, p) - q
    slope = 2 * inverse * shrink
    common = torch.addcmul(inverse * error * -2, shrink * shrink, variance, value=-1)
    wrong = torch.addcmul(common, slope, torch.addcmul(q, p, p) + 1).addcmul_(a, inverse, value=2)
    own_slope = torch.addcmul(common, slope, torch.addcmul(q, p, a, value=-1))
    return RiskTerms(torch.addcmul(error, shrink, variance), wrong, slope, own_slope)


def _soft_loss(rows: Tensor, soft: Tensor, loss: RowLoss) -> Tensor:
    """The same for soft labels (M, K): plain formulas on (M, K), in float64."""
    evidence = loss.activation.function(rows)
    value = evidence.new_zeros(len(rows))
    if loss.risk is not None:
        value = loss.risk.soft(evidence.double(), soft.double()).to(rows.dtype)
    if loss.divergence_weight:
        misleading = (1 - soft).to(rows.dtype) * evidence
        value = value + loss.divergence_weight * dirichlet.divergence(misleading)
    return value


def _soft_type2(evidence: Tensor, soft: Tensor) -> Tensor:
    return (soft * torch.log1p(dirichlet.others(evidence) / (evidence + 1))).sum(1)


def _soft_cross_entropy(evidence: Tensor, soft: Tensor) -> Tensor:
    return (soft * dirichlet.digamma_difference(evidence + 1, dirichlet.others(evidence))).sum(1)


def _soft_squared_error(evidence: Tensor, soft: Tensor) -> Tensor:
    alpha, rest = evidence + 1, dirichlet.others(evidence)
    strength = alpha + rest
    # y - p, written with 1 - p where p is near one.
    error = torch.where(alpha > rest, rest / strength - (1 - soft), soft - alpha / strength)
    variance = alpha * rest / (strength * strength * (strength + 1))
    return (error.square() + variance).sum(1)


RISKS: dict[str, Risk] = {
    "squared_error": Risk(_squared_error_terms, _soft_squared_error, uses_squares=True),
    "cross_entropy": Risk(_cross_entropy_terms, _soft_cross_entropy),
    "type2": Risk(_type2_terms, _soft_type2),
}

__all__ = [
    "cross_entropy_risk",
    "divergence",
    "misleading_divergence",
    "squared_error_risk",
    "type2_likelihood",
]
