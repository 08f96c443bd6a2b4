"""Functions of rows of evidence with their gradient, in one go.

A loss of an evidential classifier, for one row of K logits z with true class y, is

    risk(e_y, sum of e_j, sum of e_j^2) + weight * KL[D(1 + e~) || D(1)],   j != y,   e = activation(z)

where e~ is e without the true class. All three risks of the paper have this form, so that one evaluation
serves them all: value and gradient come from the same few passes over memory, the gradient is kept and
the backward pass only scales it. A second derivative is taken through plain differentiable formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from evidentia.core import divergence as kernel
from evidentia.core import evidence as functions
from evidentia.core.checks import inside_transform
from evidentia.core.evidence import EXP_HIGHEST, EXP_LOWEST, EvidenceFunction

# Evidence is held below this: there u < K / 1e15, and squares still fit a float32 for many classes.
MOST_EVIDENCE = 1e15


class Activation(NamedTuple):
    """An evidence function in three forms.

    function: differentiable. into: logits into a buffer of evidence, held below MOST_EVIDENCE.
    chain: evidence becomes, in place, its own derivative by the logits times a gradient.
    """

    function: EvidenceFunction
    into: Callable[[Tensor, Tensor], Tensor]
    chain: Callable[[Tensor, Tensor], Tensor]


def _exp_into(logits: Tensor, out: Tensor) -> Tensor:
    return torch.clamp(logits, EXP_LOWEST, EXP_HIGHEST, out=out).exp_()


def _relu_into(logits: Tensor, out: Tensor) -> Tensor:
    return torch.clamp(logits, 0.0, MOST_EVIDENCE, out=out)


def _softplus_into(logits: Tensor, out: Tensor) -> Tensor:
    return out.copy_(functions.softplus(logits)).clamp_max_(MOST_EVIDENCE)


def _identity_into(evidence: Tensor, out: Tensor) -> Tensor:
    return torch.clamp_max(evidence, MOST_EVIDENCE, out=out)


IDENTITY = Activation(lambda evidence: evidence, _identity_into, lambda e, gradient: e.copy_(gradient))
ACTIVATIONS = {
    "exp": Activation(functions.exp, _exp_into, lambda e, gradient: e.mul_(gradient)),
    "relu": Activation(functions.relu, _relu_into, lambda e, gradient: e.sign_().mul_(gradient)),
    "softplus": Activation(
        functions.softplus, _softplus_into, lambda e, gradient: e.neg_().expm1_().neg_().mul_(gradient)
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
    """Which function of a row is meant.

    expected_scale: what the backward pass will probably scale the gradient by, 1 / M before a mean. The
    gradient is made so from the start, and if it comes so, scaling it costs nothing.
    """

    activation: Activation = IDENTITY
    risk: Risk | None = None
    divergence_weight: float = 0.0
    expected_scale: float = 1.0


def row_loss(x: Tensor, targets: Tensor | None, loss: RowLoss) -> Tensor:
    """The loss of each row: x (M, K) float32 or float64, targets (M,) int64 or None, result (M,).

    Without targets no class is left out of the divergence, and there can be no risk.
    """
    if torch.compiler.is_compiling():
        return _outside_the_compiler()(x, targets, loss)
    return _apply(x, targets, loss)


def _apply(x: Tensor, targets: Tensor | None, loss: RowLoss) -> Tensor:
    device = x.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        with torch.autocast(device, enabled=False):
            return _apply(x, targets, loss)
    function = _TransformableRowLoss if inside_transform() else _RowLoss
    result: tuple[Tensor, Tensor] = function.apply(x, targets, loss)  # type: ignore[no-untyped-call]
    return result[0]


@cache
def _outside_the_compiler() -> Callable[[Tensor, Tensor | None, RowLoss], Tensor]:
    """The loss is a few hand-made passes already: a compiler would only unroll them.

    Not made at import: asking for it loads the compiler, which takes a second.
    """
    left_alone: Callable[[Tensor, Tensor | None, RowLoss], Tensor] = torch.compiler.disable(_apply)  # type: ignore[no-untyped-call]
    return left_alone


class _Sums(NamedTuple):
    """Of M rows: the evidence of the true class, the sum of the others and of their squares; float64."""

    own: Tensor
    total: Tensor
    squares: Tensor


def evaluate(x: Tensor, targets: Tensor | None, loss: RowLoss) -> tuple[Tensor, Tensor]:
    """The loss (M,), and its gradient with respect to x (M, K) times the expected scale."""
    work = kernel.work_type(x.dtype, x.shape[1])
    evidence = torch.empty_like(x, dtype=work, memory_format=torch.contiguous_format)
    rows = min(len(x), kernel.block_rows(x.shape[1], x.device))
    buffers = kernel.buffers_for(evidence, rows)
    index = None if targets is None else targets.unsqueeze(1)  # (M, 1)
    sums = _collect(x, index, loss, evidence, buffers)
    risk = _risk_terms(loss, sums, x.shape[1])
    value = _into_gradient(evidence, sums, risk, loss, x.dtype, buffers)
    if index is not None:
        own = loss.activation.chain(sums.own, risk.own).mul_(loss.expected_scale)
        evidence.scatter_(1, index, own.to(work).unsqueeze(1))
    return value.to(x.dtype), evidence.to(x.dtype)


def _blocks(rows: int, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """So many rows at a time of all these tensors (M, ...)."""
    if rows >= len(tensors[0]):
        yield tensors
    else:
        yield from zip(*(torch.split(tensor, rows) for tensor in tensors), strict=True)


def _collect(
    x: Tensor, index: Tensor | None, loss: RowLoss, evidence: Tensor, buffers: kernel.Buffers
) -> _Sums:
    """Fill evidence (M, K), the true class taken out, and sum its rows."""
    own, total, squares = sums = _Sums(*x.new_zeros(3, len(x), dtype=torch.float64).unbind())
    squared = evidence.new_empty(len(x)) if loss.risk is not None and loss.risk.uses_squares else None
    wanted = x.new_empty(len(x), 0) if index is None else index  # (M, 1), or (M, 0) for nothing
    for z, e, i, y, t, q in _blocks(
        len(buffers.v), x, evidence, wanted, own.unsqueeze(1), total, squares if squared is None else squared
    ):
        loss.activation.into(z.to(e.dtype), e)
        if index is not None:
            y.copy_(e.gather(1, i))
            e.scatter_(1, i, 0.0)
        kernel.row_sum(e, t)
        if squared is not None:
            kernel.row_sum(torch.mul(e, e, out=buffers.cut(len(e)).a), q)
    return sums if squared is None else sums._replace(squares=squared.double())


def _risk_terms(loss: RowLoss, sums: _Sums, num_classes: int) -> RiskTerms:
    if loss.risk is None:
        zero = torch.zeros_like(sums.total)
        return RiskTerms(zero, zero, None, zero)
    return loss.risk.terms(*sums, num_classes)


def _into_gradient(
    evidence: Tensor,
    sums: _Sums,
    risk: RiskTerms,
    loss: RowLoss,
    result: torch.dtype,
    buffers: kernel.Buffers,
) -> Tensor:
    """The loss (M,); evidence (M, K) becomes the gradient, the true class still to come."""
    weight, scale = loss.divergence_weight, loss.expected_scale
    rows = kernel.row_terms(sums.total, evidence.shape[1], result)
    constants = kernel.element_constants(result, evidence.dtype, evidence.device)
    wrong = torch.add(risk.wrong, rows.derivative, alpha=weight).mul_(scale).to(evidence.dtype).unsqueeze(1)
    slope = None if risk.wrong_slope is None else risk.wrong_slope.mul(scale).to(evidence.dtype).unsqueeze(1)
    parts = evidence.new_empty(len(evidence), 2)
    for e, offset, factor, keep, bound, part in _blocks(
        len(buffers.v), evidence, wrong, wrong if slope is None else slope, rows.keep, rows.bound, parts
    ):
        room = buffers.cut(len(e))
        if weight:
            kernel.value_sums(e, keep, constants, room, part)
        if slope is not None:
            offset = torch.addcmul(offset, e, factor, out=room.s)
        if weight:
            offset = kernel.gradient(e, bound, offset, weight * scale, constants, room)
        loss.activation.chain(e, offset)
    if not weight:
        return risk.value
    return kernel.divergence(rows, parts).mul_(weight).add_(risk.value)


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
    def forward(ctx: Any, x: Tensor, targets: Tensor | None, loss: RowLoss) -> tuple[Tensor, Tensor]:
        output = evaluate(x, targets, loss)
        _TransformableRowLoss.setup_context(ctx, (x, targets, loss), output)
        return output

    @staticmethod
    def backward(ctx: Any, weight: Tensor | None, _: None) -> tuple[Tensor | None, None, None]:
        x, targets, gradient = ctx.saved_tensors
        if weight is None:
            return None, None, None
        if torch.is_grad_enabled():  # someone may differentiate the gradient
            scaled: Tensor = _Scaled.apply(x, targets, gradient, weight, ctx.loss)  # type: ignore[no-untyped-call]
            return scaled, None, None
        if _is_everywhere(weight, ctx.loss.expected_scale):
            return gradient, None, None
        return gradient * (weight / ctx.loss.expected_scale).unsqueeze(1), None, None


def _is_everywhere(weight: Tensor, scale: float) -> bool:
    """Whether an expanded number on the CPU, as sum() sends back, is this one up to rounding."""
    if weight.device.type != "cpu" or weight.stride() != (0,) or not len(weight):
        return False
    return abs(float(weight[0]) / scale - 1) <= torch.finfo(weight.dtype).eps


class _TransformableRowLoss(torch.autograd.Function):
    """The same for vmap, torch.func.grad and so on, which ask for this form; it costs more to call."""

    @staticmethod
    def forward(x: Tensor, targets: Tensor | None, loss: RowLoss) -> tuple[Tensor, Tensor]:
        return evaluate(x, targets, loss)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x, targets, ctx.loss = inputs
        ctx.set_materialize_grads(False)  # else zeros (M, K) would be made for the second output
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(x, targets, output[1])

    @staticmethod
    def backward(ctx: Any, weight: Tensor | None, unused: None) -> tuple[Tensor | None, None, None]:
        return _RowLoss.backward(ctx, weight, unused)

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
        with torch.enable_grad():
            point = x if x.requires_grad else x.detach().requires_grad_()
            value = differentiable(point, targets, ctx.loss)
            (first,) = torch.autograd.grad(value.sum(), point, create_graph=True)
            product = (first * direction * weight.unsqueeze(1)).sum()
            (second,) = torch.autograd.grad(product, point, create_graph=torch.is_grad_enabled())
        by_weight = (gradient * direction).sum(1) / ctx.loss.expected_scale
        return second, None, None, by_weight, None


def _batch_first(tensor: Tensor, batch_dim: int | None, size: int) -> Tensor:
    if batch_dim is None:
        return tensor.unsqueeze(0).expand(size, *tensor.shape)
    return tensor.movedim(batch_dim, 0)
