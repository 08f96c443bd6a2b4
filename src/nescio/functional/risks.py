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

from nescio._checks import (
    SUM_TOLERANCE,
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
from nescio.errors import InputError, NotFiniteError
from nescio.functional import _dirichlet
from nescio.functional._kernels.autograd import row_loss, row_mean
from nescio.functional._kernels.rowwise import RowLoss
from nescio.functional._kernels.soft import is_soft_for, soft_loss
from nescio.functional._risk_formulas import RISKS

IGNORE_INDEX = -100


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
        raise NotFiniteError(f"{name} must be finite numbers, got {found}")


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
