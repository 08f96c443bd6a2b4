"""The Fisher information of a Dirichlet distribution in a loss: what I-EDL minimises."""

from __future__ import annotations

from torch import Tensor

from nescio._checks import describe, require_prior
from nescio.errors import InputError
from nescio.functional import _dirichlet
from nescio.functional._kernels.rowwise import Risk, RowLoss
from nescio.functional._risk_formulas import error_and_variance
from nescio.functional.risks import IGNORE_INDEX, checked_evidence, total_loss


def fisher_risk(
    evidence: Tensor,
    targets: Tensor,
    ignore_index: int = IGNORE_INDEX,
    *,
    prior: float = 1.0,
    validate: bool | None = None,
) -> Tensor:
    """Bayes risk of the squared error, each class weighted by its Fisher information, as in I-EDL.

    sum_j psi'(alpha_j) [(y_j - p_j)^2 + p_j (1 - p_j) / (S + 1)], psi' the trigamma function

    A class with much evidence has little information, so that its error counts less.

    Args:
        evidence: (N, K, d1, ...), zero or more, the class on axis 1.
        targets: Class indices (N, d1, ...) int64, or soft labels (N, K, d1, ...) that sum to one.
        ignore_index: Class index whose samples give 0.
        prior: Prior of each class in alpha = evidence + prior; 1 in I-EDL.
        validate: Whether to look at the values; by default on the CPU only, where that is cheap.

    Returns:
        The risk of each sample, (N, d1, ...).

    Raises:
        InputError: If a shape, a type or, where they are looked at, a value does not fit.

    Example:
        >>> import torch
        >>> from nescio.functional import fisher_risk
        >>> evidence = torch.tensor([[8.0, 0.0, 0.0]])
        >>> round(fisher_risk(evidence, torch.tensor([0])).item(), 4)
        0.0552
    """
    checked = checked_evidence(evidence, validate)
    loss = RowLoss(risk=Risk(None, _weighted_squared_error), prior=require_prior(prior))
    value, _ = total_loss("evidence", checked, targets, loss, ignore_index, validate)
    return value


def fisher_log_determinant(evidence: Tensor, *, prior: float = 1.0, validate: bool | None = None) -> Tensor:
    """Logarithm of the determinant of the Fisher information of D(alpha), which falls as evidence grows.

    ln |I| = sum_j ln psi'(alpha_j) + ln(1 - sum_j psi'(S) / psi'(alpha_j)), psi' the trigamma function

    Args:
        evidence: (N, K, d1, ...), zero or more, the class on axis 1.
        prior: Prior of each class in alpha = evidence + prior; 1 in I-EDL.
        validate: Whether to look at the values; by default on the CPU only, where that is cheap.

    Returns:
        The logarithm for each sample, (N, d1, ...); it may be below zero.

    Raises:
        InputError: If the shape, the type or, where they are looked at, a value does not fit.

    Example:
        >>> import torch
        >>> from nescio.functional import fisher_log_determinant
        >>> fisher_log_determinant(torch.tensor([[0.0, 0.0], [3.0, 0.0]]))
        tensor([-0.5378, -3.2191])
    """
    if isinstance(evidence, Tensor) and not evidence.numel():
        raise InputError(f"evidence must hold one or more samples, got {describe(evidence)}")
    checked = checked_evidence(evidence, validate)
    _, value = _dirichlet.fisher_information(checked.movedim(1, -1), require_prior(prior))
    return value


def information_risk(weight: float) -> Risk:
    """The risk of I-EDL: `fisher_risk` less `weight` times `fisher_log_determinant`."""

    def soft(evidence: Tensor, labels: Tensor, prior: float) -> Tensor:
        error, variance = error_and_variance(evidence, labels, prior)
        information, log_determinant = _dirichlet.fisher_information(evidence, prior)
        return (information * (error + variance)).sum(1) - weight * log_determinant

    return Risk(None, soft)


def _weighted_squared_error(evidence: Tensor, soft: Tensor, prior: float) -> Tensor:
    error, variance = error_and_variance(evidence, soft, prior)
    return (_dirichlet.trigamma(evidence + prior) * (error + variance)).sum(1)
