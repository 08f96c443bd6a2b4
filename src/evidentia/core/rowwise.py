"""Functions of rows of evidence with their gradient, in one go.

A loss of an evidential classifier, for one row of K logits z with true class y, is

    risk(e_y, sum of e_j, sum of e_j^2) + weight * KL[D(1 + e~) || D(1)],   j != y,   e = activation(z)

where e~ is e without the true class. All three risks of the paper have this form, so that one evaluation
serves them all: value and gradient come from the same few passes over memory, the gradient is kept and
the backward pass only scales it. A second derivative is taken through plain differentiable formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from evidentia.core import divergence as kernel
from evidentia.core import evidence as functions
from evidentia.core.evidence import EXP_HIGHEST, EXP_LOWEST, EvidenceFunction

# Evidence is held below this: there u < K / 1e15, and squares still fit a float32 for many classes.
MOST_EVIDENCE = 1e15


class Activation(NamedTuple):
    """An evidence function: differentiable; into a buffer, held; its derivative, from the evidence."""

    function: EvidenceFunction
    into: Callable[[Tensor, Tensor], Tensor]
    scale_by_slope: Callable[[Tensor, Tensor], Tensor]


def _exp_into(logits: Tensor, out: Tensor) -> Tensor:
    return torch.clamp(logits, EXP_LOWEST, EXP_HIGHEST, out=out).exp_()


def _relu_into(logits: Tensor, out: Tensor) -> Tensor:
    return torch.clamp(logits, 0.0, MOST_EVIDENCE, out=out)


def _softplus_into(logits: Tensor, out: Tensor) -> Tensor:
    return out.copy_(torch.nn.functional.softplus(logits)).clamp_max_(MOST_EVIDENCE)


def _identity_into(evidence: Tensor, out: Tensor) -> Tensor:
    return torch.clamp_max(evidence, MOST_EVIDENCE, out=out)


IDENTITY = Activation(lambda evidence: evidence, _identity_into, lambda gradient, evidence: gradient)
ACTIVATIONS = {
    "exp": Activation(functions.exp, _exp_into, lambda gradient, evidence: gradient.mul_(evidence)),
    "relu": Activation(functions.relu, _relu_into, lambda gradient, evidence: gradient.mul_(evidence.sign())),
    "softplus": Activation(
        functions.softplus,
        _softplus_into,
        lambda gradient, evidence: gradient.mul_(evidence.neg().expm1_().neg_()),
    ),
}


class RiskTerms(NamedTuple):
    """A risk of M rows, and its gradient: A + B (1 + e_j) for wrong classes, C for the true one; (M,)."""

    value: Tensor
    wrong: Tensor  # A
    wrong_slope: Tensor | None  # B; None for 0
    own: Tensor  # C


class Risk(NamedTuple):
    """A risk as a function of what a row sums up to.

    terms: of the evidence of the true class, the sum of the others, the sum of their squares (each (M,) in
    float64) and K. uses_squares: whether it looks at the third; else that is zero.
    """

    terms: Callable[[Tensor, Tensor, Tensor, int], RiskTerms]
    uses_squares: bool = False


class RowLoss(NamedTuple):
    """Which function of a row is meant."""

    activation: Activation = IDENTITY
    risk: Risk | None = None
    divergence_weight: float = 0.0


def row_loss(x: Tensor, targets: Tensor | None, loss: RowLoss) -> Tensor:
    """The loss of each row: x (M, K) float32 or float64, targets (M,) int64 or None, result (M,).

    Without targets no class is left out of the divergence, and there can be no risk.
    """
    with torch.autocast(x.device.type, enabled=False):
        result: tuple[Tensor, Tensor] = _apply(x, targets, loss)
    return result[0]


# The loss is a few hand-made passes already; a compiler would only unroll them.
@torch.compiler.disable  # type: ignore[untyped-decorator]
def _apply(x: Tensor, targets: Tensor | None, loss: RowLoss) -> tuple[Tensor, Tensor]:
    result: tuple[Tensor, Tensor] = _RowLoss.apply(x, targets, loss)  # type: ignore[no-untyped-call]
    return result


def evaluate(x: Tensor, targets: Tensor | None, loss: RowLoss) -> tuple[Tensor, Tensor]:
    """The loss (M,) and its gradient with respect to x (M, K)."""
    count, num_classes = x.shape
    work = kernel.work_type(x.dtype, num_classes)
    rows = min(count, kernel.block_rows(num_classes, x.device))
    evidence = torch.empty_like(x, dtype=work, memory_format=torch.contiguous_format)
    index = None if targets is None else targets.unsqueeze(1)  # (M, 1)
    own, total, squares = x.new_zeros(3, count, dtype=torch.float64).unbind()
    _collect(x, index, loss, evidence, own, total, squares, rows)
    value, wrong, wrong_slope, own_slope = _risk(loss, own, total, squares, num_classes)
    plan = kernel.row_terms(total, num_classes, x.dtype) if loss.divergence_weight else None
    if plan is not None:
        wrong = plan.derivative.mul(loss.divergence_weight).add_(wrong)
        constants = kernel.element_constants(x.dtype, work, x.device)
        blocks = kernel.Blocks(rows, num_classes, constants)
        sums = evidence.new_empty(2, count)
    scratch = evidence.new_empty(rows, num_classes)
    offset = wrong.to(work).unsqueeze(1)
    slope = None if wrong_slope is None else wrong_slope.to(work).unsqueeze(1)
    for start in range(0, count, rows):
        part = slice(start, start + rows)
        e, gradient = evidence[part], scratch[: min(rows, count - start)]
        if plan is not None:
            sums[0, part], sums[1, part] = blocks.value(e, plan.keep[part])
            blocks.gradient(e, plan.bound[part], offset[part], loss.divergence_weight, gradient)
        else:
            gradient.copy_(offset[part].expand_as(gradient))
        if slope is not None:
            gradient.addcmul_(e, slope[part])
        loss.activation.scale_by_slope(gradient, e)
        e.copy_(gradient)
    if plan is not None:
        value = value + loss.divergence_weight * kernel.divergence_of(plan, sums[0], sums[1])
    if index is not None:
        own_gradient = loss.activation.scale_by_slope(own_slope.clone(), own)
        evidence.scatter_(1, index, own_gradient.to(work).unsqueeze(1))
    return value.to(x.dtype), evidence.to(x.dtype)


def _collect(
    x: Tensor,
    index: Tensor | None,
    loss: RowLoss,
    evidence: Tensor,
    own: Tensor,
    total: Tensor,
    squares: Tensor,
    rows: int,
) -> None:
    """Fill evidence (M, K), the true class taken out, and the sums (M,) that the rows need."""
    for start in range(0, len(x), rows):
        part = slice(start, start + rows)
        e = loss.activation.into(x[part], evidence[part])
        if index is not None:
            own[part] = e.gather(1, index[part]).squeeze(1)
            e.scatter_(1, index[part], 0.0)
        kernel.row_sum(e, total[part])
        if loss.risk is not None and loss.risk.uses_squares:
            kernel.row_sum(e * e, squares[part])


def _risk(loss: RowLoss, own: Tensor, total: Tensor, squares: Tensor, num_classes: int) -> RiskTerms:
    if loss.risk is None:
        zero = torch.zeros_like(total)
        return RiskTerms(zero, zero, None, zero)
    return loss.risk.terms(own, total, squares, num_classes)


def differentiable(x: Tensor, targets: Tensor | None, loss: RowLoss) -> Tensor:
    """The same loss (M,) from differentiable parts in float64, for second derivatives."""
    evidence = loss.activation.function(x.double())
    others = evidence if targets is None else evidence.scatter(1, targets.unsqueeze(1), 0.0)
    value = evidence.new_zeros(len(x))
    if loss.risk is not None and targets is not None:
        own = evidence.gather(1, targets.unsqueeze(1)).squeeze(1)
        value = value + loss.risk.terms(own, others.sum(1), others.square().sum(1), x.shape[1]).value
    if loss.divergence_weight:
        value = value + loss.divergence_weight * textbook_divergence(others)
    return value.to(x.dtype)


def textbook_divergence(evidence: Tensor) -> Tensor:
    """KL[D(1 + e) || D(1)] (M,) of rows (M, K) as the paper writes it, differentiable any number of times."""
    num_classes, total = evidence.shape[1], evidence.sum(1)
    strength, alpha = total + num_classes, evidence + 1
    gammas = strength.lgamma() - strength.new_tensor(num_classes).lgamma() - alpha.lgamma().sum(1)
    return gammas + (evidence * alpha.digamma()).sum(1) - total * strength.digamma()


class _RowLoss(torch.autograd.Function):
    """Value and gradient together; the gradient is an output so that it can be kept."""

    @staticmethod
    def forward(x: Tensor, targets: Tensor | None, loss: RowLoss) -> tuple[Tensor, Tensor]:
        return evaluate(x, targets, loss)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x, targets, ctx.loss = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(x, targets, output[1])

    @staticmethod
    def backward(ctx: Any, weight: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        x, targets, gradient = ctx.saved_tensors
        scaled: Tensor = _Scaled.apply(x, targets, gradient, weight, ctx.loss)  # type: ignore[no-untyped-call]
        return scaled, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], x: Tensor, targets: Tensor | None, loss: RowLoss) -> Any:
        """Rows are independent: a batch of them is more rows."""
        x = _batch_first(x, in_dims[0], info.batch_size)
        shape = x.shape
        if targets is not None:
            targets = _batch_first(targets, in_dims[1], info.batch_size).reshape(-1)
        value, gradient = _apply(x.reshape(-1, shape[-1]), targets, loss)
        return (value.view(shape[:-1]), gradient.view(shape)), (0, 0)


class _Scaled(torch.autograd.Function):
    """gradient * weight, which knows that the gradient depends on x."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, targets: Tensor | None, gradient: Tensor, weight: Tensor, loss: RowLoss) -> Tensor:
        return gradient * weight.unsqueeze(1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, targets, gradient, weight, ctx.loss = inputs
        ctx.save_for_backward(x, targets, gradient, weight)

    @staticmethod
    def backward(ctx: Any, direction: Tensor) -> tuple[Tensor | None, ...]:
        x, targets, gradient, weight = ctx.saved_tensors
        with torch.enable_grad():
            point = x if x.requires_grad else x.detach().requires_grad_()
            value = differentiable(point, targets, ctx.loss)
            (first,) = torch.autograd.grad(value.sum(), point, create_graph=True)
            product = (first * direction * weight.unsqueeze(1)).sum()
            (second,) = torch.autograd.grad(product, point, create_graph=torch.is_grad_enabled())
        return second, None, None, (gradient * direction).sum(1), None


def _batch_first(tensor: Tensor, batch_dim: int | None, size: int) -> Tensor:
    if batch_dim is None:
        return tensor.unsqueeze(0).expand(size, *tensor.shape)
    return tensor.movedim(batch_dim, 0)
