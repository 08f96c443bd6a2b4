"""The three risks of the paper and the divergence, on evidence, per sample, without reduction.

evidence (N, K, d1, ...), zero or more, the class on axis 1; targets class indices (N, d1, ...) or soft
labels (N, K, d1, ...) that sum to one; result (N, d1, ...), 0 where the target is `ignore_index`.

Form is always checked. Values (evidence below zero, NaN, a label out of range, soft labels that do not
sum to one) are looked at on the CPU, where that costs next to nothing; on other devices it would make the
program wait, so there it is done with validate=True only. Evidence is held at 1e15.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from nescio._checks import (
    at_least_float32,
    describe,
    inside_autocast,
    inside_transform,
    looks_at_values,
    require_evidence,
    require_floating,
    require_prior,
)
from nescio._precision import wide_type, widest
from nescio.errors import InputError
from nescio.functional import _dirichlet
from nescio.functional._kernels.any_prior import DIGAMMA_SERIES, DIGAMMA_SHIFT
from nescio.functional._kernels.autograd import row_loss, row_mean
from nescio.functional._kernels.rowwise import Risk, RiskTerms, RowLoss, Strengths
from nescio.functional._kernels.soft import is_soft_for, soft_loss

IGNORE_INDEX = -100
SHIFT_OF_FLOAT32 = 3  # steps up the recurrence of digamma that a float32 needs from 1 on
TERMS_OF_FLOAT32 = 4  # of its series: the fifth is below 3e-8 there
SUM_TOLERANCE = 1e-3  # of soft labels, which may come in half precision


def type2_likelihood(
    evidence: Tensor,
    targets: Tensor,
    ignore_index: int = IGNORE_INDEX,
    *,
    prior: float = 1.0,
    validate: bool | None = None,
) -> Tensor:
    """Type II maximum likelihood, sum_j y_j (log S - log alpha_j) (equation 3).

    Args:
        evidence: (N, K, d1, ...), zero or more, the class on axis 1.
        targets: Class indices (N, d1, ...) int64, or soft labels (N, K, d1, ...) that sum to one.
        ignore_index: Class index whose samples give 0.
        prior: Prior of each class in alpha = evidence + prior; 1 in the paper.
        validate: Whether to look at the values; by default on the CPU only, where that is cheap.

    Returns:
        The risk of each sample, (N, d1, ...).

    Raises:
        InputError: If a shape, a type or, where they are looked at, a value does not fit.

    Example:
        >>> import torch
        >>> from nescio.functional import type2_likelihood
        >>> evidence = torch.tensor([[8.0, 0.0, 0.0]])
        >>> round(type2_likelihood(evidence, torch.tensor([0])).item(), 4)
        0.2007
    """
    return _risk_of_evidence("type2", evidence, targets, ignore_index, prior, validate)


def cross_entropy_risk(
    evidence: Tensor,
    targets: Tensor,
    ignore_index: int = IGNORE_INDEX,
    *,
    prior: float = 1.0,
    validate: bool | None = None,
) -> Tensor:
    """Bayes risk of the cross-entropy, sum_j y_j (psi(S) - psi(alpha_j)) (equation 4).

    Args:
        evidence: (N, K, d1, ...), zero or more, the class on axis 1.
        targets: Class indices (N, d1, ...) int64, or soft labels (N, K, d1, ...) that sum to one.
        ignore_index: Class index whose samples give 0.
        prior: Prior of each class in alpha = evidence + prior; 1 in the paper.
        validate: Whether to look at the values; by default on the CPU only, where that is cheap.

    Returns:
        The risk of each sample, (N, d1, ...).

    Raises:
        InputError: If a shape, a type or, where they are looked at, a value does not fit.

    Example:
        >>> import torch
        >>> from nescio.functional import cross_entropy_risk
        >>> evidence = torch.tensor([[8.0, 0.0, 0.0]])
        >>> round(cross_entropy_risk(evidence, torch.tensor([0])).item(), 4)
        0.2111
    """
    return _risk_of_evidence("cross_entropy", evidence, targets, ignore_index, prior, validate)


def squared_error_risk(
    evidence: Tensor,
    targets: Tensor,
    ignore_index: int = IGNORE_INDEX,
    *,
    prior: float = 1.0,
    validate: bool | None = None,
) -> Tensor:
    """Bayes risk of the squared error, the paper's choice (equation 5).

    sum_j (y_j - p_j)^2 + p_j (1 - p_j) / (S + 1)

    Args:
        evidence: (N, K, d1, ...), zero or more, the class on axis 1.
        targets: Class indices (N, d1, ...) int64, or soft labels (N, K, d1, ...) that sum to one.
        ignore_index: Class index whose samples give 0.
        prior: Prior of each class in alpha = evidence + prior; 1 in the paper.
        validate: Whether to look at the values; by default on the CPU only, where that is cheap.

    Returns:
        The risk of each sample, (N, d1, ...).

    Raises:
        InputError: If a shape, a type or, where they are looked at, a value does not fit.

    Example:
        >>> import torch
        >>> from nescio.functional import squared_error_risk
        >>> evidence = torch.tensor([[8.0, 0.0, 0.0]])
        >>> round(squared_error_risk(evidence, torch.tensor([0])).item(), 4)
        0.0758
    """
    return _risk_of_evidence("squared_error", evidence, targets, ignore_index, prior, validate)


def brier_risk(
    evidence: Tensor,
    targets: Tensor,
    ignore_index: int = IGNORE_INDEX,
    *,
    prior: float = 1.0,
    validate: bool | None = None,
) -> Tensor:
    """Squared error of the probabilities p = alpha / S, equation 5 without its variance.

    sum_j (y_j - p_j)^2

    R-EDL and Re-EDL minimise it: the variance part of equation 5 falls with evidence of any kind.

    Args:
        evidence: (N, K, d1, ...), zero or more, the class on axis 1.
        targets: Class indices (N, d1, ...) int64, or soft labels (N, K, d1, ...) that sum to one.
        ignore_index: Class index whose samples give 0.
        prior: Prior of each class in alpha = evidence + prior; 0.1 in R-EDL.
        validate: Whether to look at the values; by default on the CPU only, where that is cheap.

    Returns:
        The risk of each sample, (N, d1, ...).

    Raises:
        InputError: If a shape, a type or, where they are looked at, a value does not fit.

    Example:
        >>> import torch
        >>> from nescio.functional import brier_risk
        >>> evidence = torch.tensor([[8.0, 0.0, 0.0]])
        >>> round(brier_risk(evidence, torch.tensor([0])).item(), 4)
        0.0496
    """
    return _risk_of_evidence("brier", evidence, targets, ignore_index, prior, validate)


def misleading_divergence(
    evidence: Tensor,
    targets: Tensor,
    ignore_index: int = IGNORE_INDEX,
    *,
    prior: float = 1.0,
    validate: bool | None = None,
) -> Tensor:
    """Divergence of the evidence for wrong classes, KL[D(alpha~) || D(prior)].

    alpha~ = prior + (1 - y) evidence: the evidence without that of the true class.

    Args:
        evidence: (N, K, d1, ...), zero or more, the class on axis 1.
        targets: Class indices (N, d1, ...) int64, or soft labels (N, K, d1, ...) that sum to one.
        ignore_index: Class index whose samples give 0.
        prior: Prior of each class in alpha = evidence + prior; 1 in the paper.
        validate: Whether to look at the values; by default on the CPU only, where that is cheap.

    Returns:
        The divergence of each sample, (N, d1, ...).

    Raises:
        InputError: If a shape, a type or, where they are looked at, a value does not fit.

    Example:
        >>> import torch
        >>> from nescio.functional import misleading_divergence
        >>> evidence = torch.tensor([[8.0, 0.0, 0.0]])
        >>> misleading_divergence(evidence, torch.tensor([0])).item()
        0.0
        >>> round(misleading_divergence(evidence, torch.tensor([1])).item(), 4)
        2.1178
    """
    checked = checked_evidence(evidence, validate)
    loss = RowLoss(divergence_weight=1.0, prior=require_prior(prior))
    value, _ = total_loss("evidence", checked, targets, loss, ignore_index, validate)
    return value


def divergence(evidence: Tensor, *, prior: float = 1.0, validate: bool | None = None) -> Tensor:
    """How far an opinion is from "I do not know": KL[D(alpha) || D(prior)], 0 exactly without evidence.

    Args:
        evidence: (N, K, d1, ...), zero or more, the class on axis 1.
        prior: Prior of each class in alpha = evidence + prior; 1 in the paper.
        validate: Whether to look at the values; by default on the CPU only, where that is cheap.

    Returns:
        The divergence of each sample, (N, d1, ...).

    Raises:
        InputError: If the shape, the type or, where they are looked at, a value does not fit.

    Example:
        >>> import torch
        >>> from nescio.functional import divergence
        >>> divergence(torch.tensor([[0.0, 0.0], [3.0, 0.0]]))
        tensor([0.0000, 0.6363])
    """
    if isinstance(evidence, Tensor) and not evidence.numel():
        raise InputError(f"evidence must hold one or more samples, got {describe(evidence)}")
    checked = checked_evidence(evidence, validate)
    return _dirichlet.divergence(checked.movedim(1, -1), require_prior(prior))


def _risk_of_evidence(
    risk: str, evidence: Tensor, targets: Tensor, ignore_index: int, prior: float, validate: bool | None
) -> Tensor:
    checked = checked_evidence(evidence, validate)
    loss = RowLoss(risk=RISKS[risk], prior=require_prior(prior))
    value, _ = total_loss("evidence", checked, targets, loss, ignore_index, validate)
    return value


def checked_evidence(evidence: Tensor, validate: bool | None) -> Tensor:
    """Evidence (N, K, d1, ...) in float32 or float64, or a refusal."""
    require_floating("evidence", evidence, class_axis=1)
    require_evidence(evidence, validate)
    return at_least_float32(evidence)


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
        require_soft_labels(x, targets, validate)
        ignored = None
        value = _shaped(_soft_loss(_as_rows(x), _as_rows(targets), loss), x)
    else:
        require_indices(x, targets)
        wanted, ignored = without_ignored(targets, x.shape[1], ignore_index, validate)
        value = _shaped(_hard_loss(_as_rows(x), wanted.reshape(-1), loss), x)
    _require_finite(name, x, value, validate)
    if ignored is not None:
        value = value.masked_fill(ignored, 0.0)
    return value, ignored


def mean_loss(
    name: str, x: Tensor, targets: Tensor, loss: RowLoss, ignore_index: int, validate: bool | None
) -> Tensor | None:
    """The mean of `total_loss` () of rows (N, K), in fewer steps; None where there is more to it than that.

    loss.expected_scale must be 1 / N.
    """
    if torch.compiler.is_compiling() or inside_transform() or loss.prior != 1 or x.ndim != 2:
        return None
    is_plain = isinstance(targets, Tensor) and not targets.is_floating_point() and x.numel() > 0
    has_terms = loss.risk is not None and loss.risk.terms is not None
    if not is_plain or not has_terms or inside_autocast(x):
        return None
    require_indices(x, targets)
    wanted, ignored = without_ignored(targets, x.shape[1], ignore_index, validate)
    if ignored is not None:
        return None
    value = row_mean(x, wanted, loss)
    _require_finite(name, x, value, validate)
    return value


def _require_finite(name: str, x: Tensor, value: Tensor, validate: bool | None) -> None:
    # A NaN in x shows in the losses, which are K times fewer to look at.
    if not looks_at_values(value, validate):
        return
    total = value if value.ndim == 0 else value.detach().sum()
    if not math.isfinite(total.item()):
        found = "NaN" if bool(x.isnan().any()) else "infinity"
        raise InputError(f"{name} must be finite numbers, got {found}")


def _as_rows(x: Tensor) -> Tensor:
    """(N, K, d1, ...) as rows (M, K)."""
    if x.ndim == 2:
        return x
    return x.movedim(1, -1).reshape(-1, x.shape[1])


def _shaped(value: Tensor, x: Tensor) -> Tensor:
    """(M,) as (N, d1, ...)."""
    if x.ndim == 2:
        return value
    return value.view(x.shape[:1] + x.shape[2:])


def require_indices(x: Tensor, targets: Tensor) -> None:
    """Refuse targets that are no class indices (N, d1, ...) for x (N, K, d1, ...)."""
    expected = tuple(x.shape[:1] + x.shape[2:])
    if targets.dtype != torch.int64 or tuple(targets.shape) != expected:
        raise InputError(
            f"targets must be int64 class indices {expected} or floating soft labels {tuple(x.shape)}, "
            f"got {describe(targets)}"
        )


def without_ignored(
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


def require_soft_labels(x: Tensor, targets: Tensor, validate: bool | None) -> None:
    """Refuse targets that are no soft labels (N, K, d1, ...) for x of that shape."""
    if targets.shape != x.shape:
        raise InputError(
            f"targets must be int64 class indices {tuple(x.shape[:1] + x.shape[2:])} "
            f"or floating soft labels {tuple(x.shape)}, got {describe(targets)}"
        )
    if looks_at_values(targets, validate) and targets.numel():
        sums = targets.sum(1, dtype=wide_type(targets.device))
        least = float(targets.amin())
        worst = float((sums - 1).abs().amax())
        if not (least >= 0 and worst <= SUM_TOLERANCE):
            raise InputError(
                "targets must be soft labels of zero or more that sum to one over the classes, "
                f"got a least value of {least:g} and a sum off by {worst:g}"
            )


def _type2_terms(of: Strengths, prior: float) -> RiskTerms:
    ratio = of.rest / of.alpha
    return RiskTerms(torch.log1p(ratio), of.inverse, None, -ratio * of.inverse)


def _cross_entropy_terms(of: Strengths, prior: float) -> RiskTerms:
    at_strength, at_own = _dirichlet.trigamma(torch.cat((of.alpha + of.rest, of.alpha))).chunk(2)
    own_slope = at_strength - at_own
    return RiskTerms(_dirichlet.digamma_difference(of.alpha, of.rest), at_strength, None, own_slope)


def _squared_error_terms(of: Strengths, prior: float) -> RiskTerms:
    """With a = 1 - p_y, q the sum of p_j^2 over the wrong classes and r = a^2 + q: r + (2 a - r) / (S + 1)."""
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


def _hard_loss(rows: Tensor, targets: Tensor, loss: RowLoss) -> Tensor:
    """The loss (M,) of rows (M, K) with class indices (M,)."""
    if loss.risk is None or loss.risk.terms is not None:
        return row_loss(rows, targets, loss)
    one_hot = torch.zeros_like(rows).scatter(1, targets.unsqueeze(1), 1.0)
    return _soft_loss(rows, one_hot, loss)


def _soft_loss(rows: Tensor, soft: Tensor, loss: RowLoss) -> Tensor:
    """The same for soft labels (M, K)."""
    if inside_autocast(rows):
        with torch.autocast(rows.device.type, enabled=False):
            return _soft_loss(rows, soft, loss)
    if inside_transform() or not is_soft_for(rows, soft, loss):
        return _plain_soft_loss(rows, soft, loss)
    return soft_loss(rows, soft, loss, _plain_soft_loss)


def _plain_soft_loss(rows: Tensor, soft: Tensor, loss: RowLoss) -> Tensor:
    """Plain formulas on (M, K), in the widest type, differentiable any number of times."""
    evidence = loss.activation.function(rows)
    value = evidence.new_zeros(len(rows))
    if loss.risk is not None:
        value = loss.risk.soft(widest(evidence), widest(soft), loss.prior).to(rows.dtype)
    if loss.divergence_weight:
        misleading = (1 - soft).to(rows.dtype) * evidence
        value = value + loss.divergence_weight * _dirichlet.divergence(misleading, loss.prior)
    return value


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
    """With d = p - y, W = sum_j p_j d_j, V = 1 - sum_j p_j^2 and k = 1 / (S + 1): sum_j d_j^2 + k V, by evidence

    (2 / S) [d_k - W - k (p_k - 1 + V)] - k^2 V; without the variance as if k were 0.
    """
    of = _soft_rows(evidence, soft, prior)
    a = of.rest * of.inverse  # 1 - p of the top class
    top_p = of.top_alpha * of.inverse
    top_error = 1 - of.top_label - a
    others = torch.addcmul(of.inverse * prior, evidence, of.inverse)
    error = (others - soft).scatter_(1, of.top, top_error)
    value = (error * error).sum(1)
    others.scatter_(1, of.top, 0.0)
    along = (others * error).sum(1, keepdim=True)
    twice = 2 * of.inverse
    offset = torch.addcmul(along, top_p, top_error)
    top_part = torch.addcmul(along, top_error, a, value=-1).neg_()
    if not has_variance:
        gradient = torch.addcmul(-twice * offset, error, twice)
        return value, gradient.scatter_(1, of.top, twice * top_part)
    squares = (others * others).sum(1, keepdim=True)
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
