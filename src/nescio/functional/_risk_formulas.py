"""The risks as formulas: of class indices from a few sums of a row, of soft labels class by class.

Each comes with its gradient by the evidence, written so that no difference of nearly equal numbers is formed.
risks.py has the functions for users.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nescio.functional import _dirichlet
from nescio.functional._kernels.any_prior import DIGAMMA_SERIES, DIGAMMA_SHIFT
from nescio.functional._kernels.rowwise import Risk, RiskTerms, Strengths

SHIFT_OF_FLOAT32 = 3  # steps up the recurrence of digamma that a float32 needs from 1 on
TERMS_OF_FLOAT32 = 4  # of its series: the fifth is below 3e-8 there


def _type2_terms(of: Strengths, prior: float) -> RiskTerms:
    ratio = of.rest / of.alpha
    return RiskTerms(torch.log1p(ratio), of.inverse, None, -ratio * of.inverse)


def _cross_entropy_terms(of: Strengths, prior: float) -> RiskTerms:
    at_strength, at_own = _dirichlet.trigamma(torch.cat((of.alpha + of.rest, of.alpha))).chunk(2)
    own_slope = at_strength - at_own
    return RiskTerms(_dirichlet.digamma_difference(of.alpha, of.rest), at_strength, None, own_slope)


def _squared_error_terms(of: Strengths, prior: float) -> RiskTerms:
    """With a = 1 - p_y, q the sum of p_j^2 over the wrong classes, r = a^2 + q: r + (2 a - r) / (S + 1)."""
    a = of.rest * of.inverse
    error = torch.addcmul(of.squares * of.inverse, of.rest, a).mul(of.inverse)
    minus_shrunk = of.shrink * torch.sub(error, a, alpha=2)
    value = error - minus_shrunk
    twice = of.inverse + of.inverse
    slope = twice * of.shrink
    common = of.shrink * minus_shrunk  # what the variance loses as S + 1 grows
    wrong = torch.addcmul(common, twice, a - value).add(slope, alpha=1 + prior)
    own_slope = torch.addcmul(common, twice, torch.addcmul(value, of.shrink, a, value=-1), value=-1)
    return RiskTerms(value, wrong, slope, own_slope)


def _brier_terms(of: Strengths, prior: float) -> RiskTerms:
    """With a and q as above: a^2 + q."""
    a = of.rest * of.inverse
    twice = of.inverse + of.inverse
    error = torch.addcmul(of.squares * of.inverse, of.rest, a).mul(of.inverse)
    slope = twice * of.inverse
    wrong = torch.addcmul(slope * prior, twice, a - error)
    return RiskTerms(error, wrong, slope, -twice * error)


def _soft_type2(evidence: Tensor, soft: Tensor, prior: float) -> Tensor:
    rest = _dirichlet.others(evidence, prior)
    alpha = evidence + prior
    return (soft * torch.log1p(rest / alpha)).sum(1)


def _soft_cross_entropy(evidence: Tensor, soft: Tensor, prior: float) -> Tensor:
    alpha = evidence + prior
    rest = _dirichlet.others(evidence, prior)
    return (soft * _dirichlet.digamma_difference(alpha, rest)).sum(1)


def _soft_squared_error(evidence: Tensor, soft: Tensor, prior: float) -> Tensor:
    error, variance = error_and_variance(evidence, soft, prior)
    return (error + variance).sum(1)


def _soft_brier(evidence: Tensor, soft: Tensor, prior: float) -> Tensor:
    error, _ = error_and_variance(evidence, soft, prior)
    return error.sum(1)


def error_and_variance(evidence: Tensor, soft: Tensor, prior: float) -> tuple[Tensor, Tensor]:
    """(y_j - p_j)^2 and p_j (1 - p_j) / (S + 1) of each class, (M, K)."""
    alpha = evidence + prior
    rest = _dirichlet.others(evidence, prior)
    strength = alpha + rest
    # y - p, written with 1 - p where p is near one.
    error = torch.where(alpha > rest, rest / strength - (1 - soft), soft - alpha / strength)
    variance = alpha * rest / (strength * strength * (strength + 1))
    return error.square(), variance


class _SoftRows(NamedTuple):
    """Of M rows, with the class that has most evidence apart: sums without it lose no digits where it has
    nearly all. (M, 1) each, in float64 but for the first.
    """

    top: Tensor  # its index
    top_alpha: Tensor
    rest: Tensor  # S - top_alpha
    inverse: Tensor  # 1 / S
    top_label: Tensor
    other_labels: Tensor  # the sum of them


def _soft_rows(evidence: Tensor, soft: Tensor, prior: float) -> _SoftRows:
    top = evidence.argmax(1, keepdim=True)
    top_alpha = evidence.gather(1, top).double().add_(prior)
    rest = evidence.scatter(1, top, 0.0).sum(1, keepdim=True, dtype=torch.float64)
    rest.add_((evidence.shape[1] - 1) * prior)
    return _SoftRows(
        top=top,
        top_alpha=top_alpha,
        rest=rest,
        inverse=(top_alpha + rest).reciprocal_(),
        top_label=soft.gather(1, top).double(),
        other_labels=soft.scatter(1, top, 0.0).sum(1, keepdim=True, dtype=torch.float64),
    )


def _soft_type2_terms(
    evidence: Tensor, soft: Tensor, prior: float, result: torch.dtype
) -> tuple[Tensor, Tensor]:
    """sum_j y_j / S - y_k / alpha_k."""
    of = _soft_rows(evidence, soft, prior)
    p = torch.addcmul(of.inverse * prior, evidence, of.inverse)
    gradient = torch.addcdiv(of.other_labels + of.top_label, soft, p, value=-1)
    ratio = of.rest / of.top_alpha
    gradient.scatter_(1, of.top, of.other_labels - of.top_label * ratio)
    logs = p.log_().scatter_(1, of.top, ratio.log1p().neg_())
    return (soft * logs).sum(1).neg_(), gradient.mul_(of.inverse)


def _soft_cross_entropy_terms(
    evidence: Tensor, soft: Tensor, prior: float, result: torch.dtype
) -> tuple[Tensor, Tensor]:
    """sum_j y_j psi'(S) - y_k psi'(alpha_k)."""
    of = _soft_rows(evidence, soft, prior)
    steps = DIGAMMA_SHIFT
    num_terms = len(DIGAMMA_SERIES)
    if result == torch.float32 and prior >= 1:
        # The series of a float32 begin to converge early. Its digits are enough for classes other than the
        # top one, whose alpha is at most half of S: psi(S) - psi(alpha) is not small.
        steps = SHIFT_OF_FLOAT32
        num_terms = TERMS_OF_FLOAT32
        evidence = evidence.float()
        soft = soft.float()
    strength = of.top_alpha + of.rest
    psi, slopes = _dirichlet.digamma_differences(evidence + prior, strength, steps, num_terms)
    top_psi = _dirichlet.digamma_difference(of.top_alpha.squeeze(1), of.rest.squeeze(1)).unsqueeze(1)
    psi.scatter_(1, of.top, top_psi.to(psi.dtype))
    both = torch.cat((strength, of.top_alpha)).squeeze(1)
    at_strength, at_top = _dirichlet.trigamma(both).unsqueeze(1).chunk(2)
    of_labels = ((of.other_labels + of.top_label) * at_strength).to(psi.dtype)
    gradient = torch.addcmul(of_labels, soft, slopes, value=-1)
    top_gradient = of.other_labels * at_strength - of.top_label * (at_top - at_strength)
    gradient.scatter_(1, of.top, top_gradient.to(psi.dtype))
    return (soft * psi).sum(1, dtype=torch.float64), gradient


def _soft_squared_error_terms(
    evidence: Tensor, soft: Tensor, prior: float, result: torch.dtype
) -> tuple[Tensor, Tensor]:
    return _soft_square_terms(evidence, soft, prior, has_variance=True)


def _soft_brier_terms(
    evidence: Tensor, soft: Tensor, prior: float, result: torch.dtype
) -> tuple[Tensor, Tensor]:
    return _soft_square_terms(evidence, soft, prior, has_variance=False)


def _soft_square_terms(
    evidence: Tensor, soft: Tensor, prior: float, has_variance: bool
) -> tuple[Tensor, Tensor]:
    """sum_j d_j^2 + k V with d = p - y, V = 1 - sum_j p_j^2 and k = 1 / (S + 1), or 0 without the variance.

    Its gradient is (2 / S) [d_k - W - k (p_k - 1 + V)] - k^2 V with W = sum_j p_j d_j.
    """
    of = _soft_rows(evidence, soft, prior)
    a = of.rest * of.inverse  # 1 - p of the top class
    top_p = of.top_alpha * of.inverse
    top_error = 1 - of.top_label - a
    others = torch.addcmul(of.inverse * prior, evidence, of.inverse)
    error = (others - soft).scatter_(1, of.top, top_error)
    value = torch.linalg.vecdot(error, error)  # without a product in new memory
    others.scatter_(1, of.top, 0.0)
    along = torch.linalg.vecdot(others, error).unsqueeze(1)
    twice = 2 * of.inverse
    offset = torch.addcmul(along, top_p, top_error)
    top_part = torch.addcmul(along, top_error, a, value=-1).neg_()
    if not has_variance:
        gradient = torch.addcmul(-twice * offset, error, twice)
        return value, gradient.scatter_(1, of.top, twice * top_part)
    squares = torch.linalg.vecdot(others, others).unsqueeze(1)
    shrink = (of.top_alpha + of.rest + 1).reciprocal_()
    variance = a * (2 - a) - squares
    shrunk = shrink * variance
    offset = torch.addcmul(offset, shrink, 1 - variance, value=-1)
    gradient = torch.addcmul(torch.addcmul(shrink * shrunk, twice, offset).neg_(), error, twice)
    gradient.addcmul_(others, twice * shrink, value=-1)
    top_part = torch.addcmul(top_part, shrink, top_p * a - squares, value=-1)
    gradient.scatter_(1, of.top, torch.addcmul(shrink * shrunk, twice, top_part, value=-1).neg_())
    return value + shrunk.squeeze(1), gradient


RISKS: dict[str, Risk] = {
    "squared_error": Risk(
        _squared_error_terms, _soft_squared_error, uses_squares=True, soft_terms=_soft_squared_error_terms
    ),
    "cross_entropy": Risk(_cross_entropy_terms, _soft_cross_entropy, soft_terms=_soft_cross_entropy_terms),
    "type2": Risk(_type2_terms, _soft_type2, soft_terms=_soft_type2_terms),
    "brier": Risk(_brier_terms, _soft_brier, uses_squares=True, soft_terms=_soft_brier_terms),
}
