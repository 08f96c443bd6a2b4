"""soft_loss: the loss of rows with soft labels, with its gradient from formulas, not from autograd.

Plain formulas on (M, K) in float64, recorded by autograd, cost ten times the loss with class indices. Here
value and gradient are made together, the risk some rows at a time that fit the processor's cache. A second
derivative is taken through the plain formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nescio._precision import wide_type
from nescio.functional._kernels import autograd
from nescio.functional._kernels.rowwise import RowLoss

BLOCK_ELEMENTS = 66_000  # fewer, and calls of torch cost more than their work; more, and they leave the cache
Plain = Callable[[Tensor, Tensor, RowLoss], Tensor]


def soft_loss(rows: Tensor, soft: Tensor, loss: RowLoss, plain: Plain) -> Tensor:
    """The loss (M,) of rows (M, K) with soft labels (M, K); plain: the same from differentiable formulas."""
    value: Tensor = _SoftLoss.apply(rows, soft, loss, plain)  # type: ignore[no-untyped-call]
    return value


class _SoftLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, soft: Tensor, loss: RowLoss, plain: Plain) -> Tensor:
        value, ctx.gradient = evaluate_soft(rows, soft, loss)
        ctx.loss = loss
        ctx.plain = plain
        ctx.save_for_backward(rows, soft)
        return value

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor, None, None, None]:
        if not torch.is_grad_enabled():
            return ctx.gradient * weight.unsqueeze(1), None, None, None
        rows, soft = ctx.saved_tensors
        value = ctx.plain(rows, soft, ctx.loss)
        (gradient,) = torch.autograd.grad(value, rows, weight, create_graph=True)
        return gradient, None, None, None


def evaluate_soft(rows: Tensor, soft: Tensor, loss: RowLoss) -> tuple[Tensor, Tensor]:
    """The loss (M,), and its gradient with respect to rows (M, K), in their type."""
    with torch.enable_grad():
        logits = rows.detach().requires_grad_()
        from_logits = loss.activation.function(logits)
    evidence = from_logits.detach()
    if loss.divergence_weight:
        others = (1 - soft).to(rows.dtype)
        alone = RowLoss(divergence_weight=loss.divergence_weight)
        value, slope = autograd.evaluate(others * evidence, None, alone)
        slope.mul_(others)
    else:
        value = rows.new_zeros(rows.shape[0])
        slope = torch.zeros_like(evidence)
    if loss.risk is not None and loss.risk.soft_terms is not None:
        at_once = max(1, BLOCK_ELEMENTS // rows.shape[1])
        for first in range(0, rows.shape[0], at_once):
            part = slice(first, first + at_once)
            risk, by_risk = loss.risk.soft_terms(evidence[part], soft[part], loss.prior, rows.dtype)
            value[part] += risk
            slope[part] += by_risk
    (gradient,) = torch.autograd.grad(from_logits, logits, slope)
    return value.to(rows.dtype), gradient


def is_soft_for(rows: Tensor, soft: Tensor, loss: RowLoss) -> bool:
    """Whether `soft_loss` is for these: float64 and gradients are there, and none is asked for by labels."""
    has_terms = loss.risk is None or loss.risk.soft_terms is not None
    return (
        has_terms
        and loss.prior == 1
        and not soft.requires_grad
        and wide_type(rows.device) == torch.float64
        and not torch.compiler.is_compiling()
        and not (torch.is_inference_mode_enabled() or rows.is_inference() or soft.is_inference())
    )
