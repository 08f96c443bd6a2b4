"""The evaluation of rowwise.py as one expression, without buffers, blocks or kept constants.

A compiler fuses it into a few passes of its own: the formulas are those of divergence.py, the numbers of a
polynomial are plain Python numbers, and nothing depends on the size of the batch.

It is also the evaluation for devices without float64: sums of rows are carried in pairs of float32 there.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nescio._precision import row_sum_pair, wide_type
from nescio.functional._kernels import divergence as kernel
from nescio.functional._kernels.rowwise import RiskTerms, RowLoss, strengths_of

ATANH_SERIES = tuple(1 / (2 * n + 1) for n in range(1, 10))


class TracedRowLoss(torch.autograd.Function):
    """The loss of each row for a compiler: the gradient is made with the value, and scaled afterwards."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, targets: Tensor | None, loss: RowLoss) -> Tensor:
        value, gradient = evaluate_traced(x, targets, loss)
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * weight.unsqueeze(1), None, None


def evaluate_traced(x: Tensor, targets: Tensor | None, loss: RowLoss) -> tuple[Tensor, Tensor]:
    """The loss (M,) of x (M, K), and its gradient (M, K), for prior 1."""
    num_classes = x.shape[1]
    wide = torch.promote_types(wide_type(x.device), x.dtype)
    work = x.dtype
    if wide == torch.float64:
        work = kernel.work_type(x.dtype, num_classes)
    wrong = loss.activation.function(x.to(work))
    own = None
    if targets is not None:
        # Taken out by an index, not by a comparison in each element: that would keep the compiler from
        # vectorising the end of a row, which is all of a short one.
        index = targets.unsqueeze(1)
        own = wrong.gather(1, index).squeeze(1).to(wide)
        wrong = wrong.scatter(1, index, 0.0)
    total, total_rest = _row_sum(wrong, wide)
    risk = _risk_terms(loss, own, total, wrong)
    constant, derivative, is_high = _row_terms(total, num_classes, x.dtype)
    if total_rest is not None:
        constant = constant + derivative * total_rest
    weight = loss.divergence_weight
    value = risk.value
    offset = (risk.wrong + weight * derivative).to(work).unsqueeze(1)
    if risk.wrong_slope is not None:
        offset = offset + wrong * risk.wrong_slope.to(work).unsqueeze(1)
    if weight:
        divergence, slope = _elements(wrong, constant, is_high.unsqueeze(1), x.dtype)
        value = value + weight * divergence.clamp_min(0)
        offset = offset + weight * slope
    gradient = loss.activation.chain(wrong, offset)
    if own is not None:
        own_gradient = loss.activation.chain(own, risk.own).to(work)
        gradient = gradient.scatter(1, index, own_gradient.unsqueeze(1))
    return value.to(x.dtype), gradient.to(x.dtype)


def _risk_terms(loss: RowLoss, own: Tensor | None, total: Tensor, wrong: Tensor) -> RiskTerms:
    if loss.risk is None or own is None:
        zero = torch.zeros_like(total)
        return RiskTerms(zero, zero, None, zero)
    squares = total
    if loss.risk.uses_squares:
        squares = (wrong * wrong).sum(1).to(total.dtype)
    assert loss.risk.terms is not None
    strengths = strengths_of(own, total, squares, wrong.shape[1], loss.prior)
    return loss.risk.terms(strengths, loss.prior)


def _row_sum(x: Tensor, wide: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """The sums of rows (M, K) in float64, or in float32 with what that left out, each (M,)."""
    if wide == torch.float64:
        return x.sum(1, dtype=wide), None
    return row_sum_pair(x)


def _polynomial(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    """Horner's rule; the lowest power comes first."""
    *others, lead = coefficients
    value = lead * x + others[-1]
    for coefficient in reversed(others[:-1]):
        value = value * x + coefficient
    return value


def _row_terms(total: Tensor, num_classes: int, result: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """G or -H, its derivative, and whether the row is high: all (M,), as divergence.row_terms."""
    numbers = kernel.row_numbers(num_classes, result)
    y = num_classes - 0.5
    is_high = total > num_classes
    r = total / y
    log = r.log1p()
    if total.dtype == torch.float32:
        # log1p(r) - r cancels too soon: with t = r / (2 + r) it is -r t + 2 t^3 (1/3 + t^2/5 + ...).
        t = r / (2 + r)
        low = 2 * t * t * t * _polynomial(ATANH_SERIES, t * t) - r * t
    else:
        series = _polynomial(numbers.log_series, r) * r * r
        low = torch.where(r < numbers.log_limit, series, log - r)
    inverse = 1 / (total + numbers.kappa)
    rho = inverse * numbers.kappa
    delta = inverse * total
    constant = y * torch.where(is_high, log, low) + _polynomial(numbers.value, rho) * delta * delta
    ratio = torch.where(is_high, y, -total) / (total + y)
    return constant, ratio + _polynomial(numbers.slope, rho) * delta * rho * rho, is_high


def _elements(
    evidence: Tensor, constant: Tensor, is_high: Tensor, result: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The divergence (M,) from its constant, and h' or h' - 1 of each element (M, K)."""
    fitted = kernel.coefficients(result)
    x = evidence * kernel.SCALE + kernel.POLE * kernel.SCALE
    v = 1 / x
    s = evidence.clamp_max(kernel.KNEE)
    bend = (_polynomial(fitted.value_p, v) + _polynomial(fitted.value_q, v) * s) * s
    kept = torch.where(is_high, s, s - evidence)
    # First (s - e), which is exact, then the small term: the other order would lose it.
    rest, rest_low = _row_sum(kept - bend * s, constant.dtype)
    logs, logs_low = _row_sum(x.clamp_min(1.0).log(), constant.dtype)
    divergence = (constant - rest) - 0.5 * logs
    if rest_low is not None and logs_low is not None:
        divergence = divergence - (rest_low + 0.5 * logs_low)
    excess = evidence * (_polynomial(fitted.slope, v) * v)
    held = torch.where(is_high, -kernel.POLE, evidence)
    return divergence, kernel.SCALE * v * (held + excess)
