"""row_loss: the row-wise losses as differentiable functions.

The gradient is made together with the value, kept, and only scaled in the backward pass. A second derivative
is taken through plain differentiable formulas.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nescio._checks import inside_autocast, inside_transform
from nescio._precision import has_float64
from nescio.functional._kernels.rowwise import RowLoss, differentiable
from nescio.functional._kernels.rowwise import evaluate as evaluate_in_blocks
from nescio.functional._kernels.small import evaluate_small, is_small
from nescio.functional._kernels.traced import TracedRowLoss, evaluate_traced


def row_loss(x: Tensor, targets: Tensor | None, loss: RowLoss) -> Tensor:
    """The loss of each row: x (M, K) float32 or float64, targets (M,) int64 or None, result (M,).

    Without targets no class is left out of the divergence, and there can be no risk.
    """
    if torch.compiler.is_exporting():
        return differentiable(x, targets, loss)  # whatever the size of the batch
    if torch.compiler.is_compiling():
        return _inside_the_compiler(x, targets, loss)
    return _apply(x, targets, loss)


def row_mean(x: Tensor, targets: Tensor, loss: RowLoss) -> Tensor:
    """The mean of `row_loss` () for prior 1, in fewer steps; loss.expected_scale must be 1 / M."""
    value: Tensor = _RowMean.apply(x, targets, loss)  # type: ignore[no-untyped-call]
    return value


def _apply(x: Tensor, targets: Tensor | None, loss: RowLoss) -> Tensor:
    if inside_autocast(x):
        with torch.autocast(x.device.type, enabled=False):
            return _apply(x, targets, loss)
    if loss.prior != 1:
        return differentiable(x, targets, loss)  # the fast evaluation is for prior 1
    value: Tensor
    if inside_transform():
        value, _ = _TransformableRowLoss.apply(x, targets, loss)  # type: ignore[no-untyped-call]
    else:
        value = _RowLoss.apply(x, targets, loss)  # type: ignore[no-untyped-call]
    return value


def _inside_the_compiler(x: Tensor, targets: Tensor | None, loss: RowLoss) -> Tensor:
    if loss.prior != 1 or inside_transform():
        return differentiable(x, targets, loss)
    value: Tensor = TracedRowLoss.apply(x, targets, loss)  # type: ignore[no-untyped-call]
    return value


def evaluate(x: Tensor, targets: Tensor | None, loss: RowLoss) -> tuple[Tensor, Tensor]:
    """The loss (M,) in the type of x or wider, and its gradient by x (M, K) times the expected scale."""
    if x.dtype == torch.float64 or has_float64(x.device):
        if loss.divergence_weight and is_small(x):
            return evaluate_small(x, targets, loss)
        return evaluate_in_blocks(x, targets, loss)
    value, gradient = evaluate_traced(x, targets, loss)
    return value, gradient * loss.expected_scale


class _RowLoss(torch.autograd.Function):
    """The usual case. The gradient is given away once: whoever gets it may change it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, targets: Tensor | None, loss: RowLoss) -> Tensor:
        value, ctx.gradient = evaluate(x, targets, loss)
        ctx.loss = loss
        ctx.save_for_backward(x, targets)
        return value.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor, None, None]:
        x, targets = ctx.saved_tensors
        gradient = ctx.gradient
        ctx.gradient = None
        if gradient is None:  # a second backward pass over the same graph
            gradient = evaluate(x.detach(), targets, ctx.loss)[1]
        return _scaled(x, targets, gradient, weight, ctx.loss), None, None


class _RowMean(torch.autograd.Function):
    """The mean of the losses: neither they nor their weights, all alike, are kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, targets: Tensor, loss: RowLoss) -> Tensor:
        value, ctx.gradient = evaluate(x, targets, loss)
        ctx.loss = loss
        ctx.save_for_backward(x, targets)
        return value.mean(dtype=x.dtype)

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor, None, None]:
        x, targets = ctx.saved_tensors
        gradient = ctx.gradient
        ctx.gradient = None
        if gradient is None:  # a second backward pass over the same graph
            gradient = evaluate(x.detach(), targets, ctx.loss)[1]
        if torch.is_grad_enabled():  # someone may differentiate it
            of_rows = (weight * ctx.loss.expected_scale).expand(x.shape[0])
            return _scaled(x, targets, gradient, of_rows, ctx.loss), None, None
        if _is_number(weight, 1.0):
            return gradient, None, None
        return gradient * weight, None, None


class _TransformableRowLoss(torch.autograd.Function):
    """The same for vmap, torch.func.grad and so on, which ask for this form; it costs more to call."""

    @staticmethod
    def forward(x: Tensor, targets: Tensor | None, loss: RowLoss) -> tuple[Tensor, Tensor]:
        value, gradient = evaluate(x, targets, loss)
        return value.to(x.dtype), gradient

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x, targets, ctx.loss = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(x, targets, output[1])

    @staticmethod
    def backward(ctx: Any, weight: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        x, targets, gradient = ctx.saved_tensors
        return _scaled(x, targets, gradient, weight, ctx.loss), None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], x: Tensor, targets: Tensor | None, loss: RowLoss) -> Any:
        """Rows are independent: a batch of them is more rows."""
        x = _batch_first(x, in_dims[0], info.batch_size)
        shape = x.shape
        if targets is not None:
            targets = _batch_first(targets, in_dims[1], info.batch_size).reshape(-1)
        rows = x.reshape(-1, shape[-1])
        value, gradient = _TransformableRowLoss.apply(rows, targets, loss)  # type: ignore[no-untyped-call]
        return (value.view(shape[:-1]), gradient.view(shape)), (0, 0)


def _scaled(x: Tensor, targets: Tensor | None, gradient: Tensor, weight: Tensor, loss: RowLoss) -> Tensor:
    """The gradient, as it was made for the expected scale, times what the scale really is."""
    if torch.is_grad_enabled():  # someone may differentiate it
        scaled: Tensor = _Scaled.apply(x, targets, gradient, weight, loss)  # type: ignore[no-untyped-call]
        return scaled
    if _is_everywhere(weight, loss.expected_scale):
        return gradient
    return gradient * (weight / loss.expected_scale).unsqueeze(1)


def _is_everywhere(weight: Tensor, scale: float) -> bool:
    """Whether an expanded number on the CPU, as sum() sends back, is this one up to rounding."""
    if weight.stride() != (0,) or not len(weight):
        return False
    return _is_number(weight[0], scale)


def _is_number(weight: Tensor, expected: float) -> bool:
    """Whether () on the CPU, where a look costs nothing, is this number up to rounding."""
    if not weight.is_cpu:
        return False
    try:
        sent = weight.item()
    except RuntimeError:  # a batch of backward passes: there is no one number
        return False
    return sent == expected or abs(sent / expected - 1) <= torch.finfo(weight.dtype).eps


class _Scaled(torch.autograd.Function):
    """gradient * weight, which knows that the gradient depends on x."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, targets: Tensor | None, gradient: Tensor, weight: Tensor, loss: RowLoss) -> Tensor:
        return gradient * (weight / loss.expected_scale).unsqueeze(1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, targets, gradient, weight, ctx.loss = inputs
        ctx.save_for_backward(x, targets, gradient, weight)

    @staticmethod
    def backward(ctx: Any, direction: Tensor) -> tuple[Tensor | None, ...]:
        x, targets, gradient, weight = ctx.saved_tensors
        slope = torch.func.grad(lambda point: differentiable(point, targets, ctx.loss).sum())
        pull = torch.func.vjp(slope, x)[1]
        (second,) = pull(direction * weight.unsqueeze(1))
        by_weight = (gradient * direction).sum(1) / ctx.loss.expected_scale
        return second, None, None, by_weight, None


def _batch_first(tensor: Tensor, batch_dim: int | None, size: int) -> Tensor:
    if batch_dim is None:
        return tensor.unsqueeze(0).expand(size, *tensor.shape)
    return tensor.movedim(batch_dim, 0)
