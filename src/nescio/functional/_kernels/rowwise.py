"""Functions of rows of evidence with their gradient, in one go.

A loss of an evidential classifier, for one row of K logits z with true class y, is

    risk(e_y, sum of e_j, sum of e_j^2) + weight * KL[D(p + e~) || D(p)],   j != y,   e = activation(z)

where e~ is e without the true class and p the prior of each class. All three risks of the paper have this
form, so that one evaluation serves them all: value and gradient come from the same few passes over memory.
autograd.py makes it known to torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from nescio._precision import widest
from nescio.functional._kernels import divergence as kernel
from nescio.functional._kernels.any_prior import divergence_from
from nescio.functional.evidence import IDENTITY, Activation


class Strengths(NamedTuple):
    """What the risks need of M rows, each (M,)."""

    alpha: Tensor  # of the true class
    rest: Tensor  # the sum of the other alphas
    squares: Tensor  # the sum of their squares
    inverse: Tensor  # 1 / S
    shrink: Tensor  # 1 / (S + 1)


class RiskTerms(NamedTuple):
    """A risk of M rows, and its gradient: A + B e_j for wrong classes, C for the true one; all (M,)."""

    value: Tensor
    wrong: Tensor  # A
    wrong_slope: Tensor | None  # B; None for 0
    own: Tensor  # C


class Risk(NamedTuple):
    """A risk in two forms.

    terms: from the strengths (float64 where there is that) and the prior; None for a risk that these do not
    decide, which has its other form alone.
    soft: from evidence, soft labels (M, K) in float64 and the prior to (M,), differentiable.
    soft_terms: from evidence and labels in any type the same with its gradient by the evidence (M, K), not
    differentiable, exact enough for results of a type; None where that has not been derived.
    uses_squares: whether `terms` looks at the squares; else they may be anything.
    """

    terms: Callable[[Strengths, float], RiskTerms] | None
    soft: Callable[[Tensor, Tensor, float], Tensor]
    uses_squares: bool = False
    soft_terms: Callable[[Tensor, Tensor, float, torch.dtype], tuple[Tensor, Tensor]] | None = None


class RowLoss(NamedTuple):
    """Which function of a row is meant.

    expected_scale: what the backward pass will probably scale the gradient by, 1 / M before a mean. The
    gradient is made so from the start, and if it comes so, scaling it costs nothing.
    prior: of each class; `evaluate` is for 1, `differentiable` for any.
    """

    activation: Activation = IDENTITY
    risk: Risk | None = None
    divergence_weight: float = 0.0
    expected_scale: float = 1.0
    prior: float = 1.0


class _Sums(NamedTuple):
    """Of M rows: the evidence of the true class, the sum of the others and of their squares; float64."""

    own: Tensor
    total: Tensor
    squares: Tensor


def evaluate(x: Tensor, targets: Tensor | None, loss: RowLoss) -> tuple[Tensor, Tensor]:
    """The loss (M,), and its gradient with respect to x (M, K) times the expected scale."""
    work = kernel.work_type(x.dtype, x.shape[1])
    evidence = torch.empty_like(x, dtype=work, memory_format=torch.contiguous_format)
    rows = min(x.shape[0], kernel.block_rows(x.shape[1], x.device))
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
    if rows >= tensors[0].shape[0]:
        yield tensors
    else:
        yield from zip(*(torch.split(tensor, rows) for tensor in tensors), strict=True)


def _collect(
    x: Tensor, index: Tensor | None, loss: RowLoss, evidence: Tensor, buffers: kernel.Buffers
) -> _Sums:
    """Fill evidence (M, K), the true class taken out, and sum its rows."""
    sums = _Sums(*x.new_zeros(3, x.shape[0], dtype=torch.float64).unbind())
    own = sums.own.unsqueeze(1)
    # Squares are summed in the type of the evidence, and only where the risk looks at them.
    uses_squares = loss.risk is not None and loss.risk.uses_squares
    squares = evidence.new_empty(x.shape[0]) if uses_squares else sums.squares
    wanted = x.new_empty(x.shape[0], 0) if index is None else index  # (M, 1), or (M, 0) for nothing
    for z, e, i, y, t, q in _blocks(buffers.v.shape[0], x, evidence, wanted, own, sums.total, squares):
        loss.activation.into(z.to(e.dtype), e)
        if index is not None:
            y.copy_(e.gather(1, i))
            e.scatter_(1, i, 0.0)
        kernel.row_sum(e, t)
        if uses_squares:
            kernel.row_sum(torch.mul(e, e, out=buffers.cut(e.shape[0]).a), q)
    return sums._replace(squares=squares.double())


def _risk_terms(loss: RowLoss, sums: _Sums, num_classes: int) -> RiskTerms:
    if loss.risk is None:
        zero = torch.zeros_like(sums.total)
        return RiskTerms(zero, zero, None, zero)
    assert loss.risk.terms is not None
    return loss.risk.terms(strengths_of(*sums, num_classes, loss.prior), loss.prior)


def strengths_of(own: Tensor, total: Tensor, squares: Tensor, num_classes: int, prior: float) -> Strengths:
    """From the evidence of the true class, the sum of the others and the sum of their squares, each (M,)."""
    alpha = own + prior
    rest = total + (num_classes - 1) * prior
    strength = alpha + rest
    return Strengths(
        alpha=alpha,
        rest=rest,
        squares=squares.add(total, alpha=2 * prior).add_((num_classes - 1) * prior**2),
        inverse=strength.reciprocal(),
        shrink=(strength + 1).reciprocal(),
    )


def _into_gradient(
    evidence: Tensor,
    sums: _Sums,
    risk: RiskTerms,
    loss: RowLoss,
    result: torch.dtype,
    buffers: kernel.Buffers,
) -> Tensor:
    """The loss (M,); evidence (M, K) becomes the gradient, the true class still to come."""
    weight = loss.divergence_weight
    scale = loss.expected_scale
    constants = kernel.element_constants(result, evidence.dtype, evidence.device)
    rows = kernel.row_terms(sums.total, evidence.shape[1], result, constants)
    wrong = torch.add(risk.wrong, rows.derivative, alpha=weight).mul_(scale).to(evidence.dtype).unsqueeze(1)
    slope = wrong  # not looked at where the risk has none
    if risk.wrong_slope is not None:
        slope = risk.wrong_slope.mul(scale).to(evidence.dtype).unsqueeze(1)
    parts = evidence.new_empty(evidence.shape[0], 2)
    for e, offset, factor, keep, bound, part in _blocks(
        buffers.v.shape[0], evidence, wrong, slope, rows.keep, rows.bound, parts
    ):
        room = buffers.cut(e.shape[0])
        if weight:
            kernel.value_sums(e, keep, constants, room, part)
        if risk.wrong_slope is not None:
            offset = torch.addcmul(offset, e, factor, out=room.s)
        if weight:
            offset = kernel.gradient(e, bound, offset, weight * scale, constants, room)
        loss.activation.chain(e, offset)
    if not weight:
        return risk.value
    return kernel.divergence(rows, parts).mul_(weight).add_(risk.value)


def differentiable(x: Tensor, targets: Tensor | None, loss: RowLoss) -> Tensor:
    """The same loss (M,) from differentiable parts in the widest type: any prior, second derivatives."""
    evidence = loss.activation.function(widest(x))
    others = evidence
    if targets is not None:
        others = evidence.scatter(1, targets.unsqueeze(1), 0.0)
    value = evidence.new_zeros(x.shape[0])  # not len(), which fixes the size in a traced program
    if loss.risk is not None and targets is not None:
        own = evidence.gather(1, targets.unsqueeze(1)).squeeze(1)
        total = others.sum(1)
        squares = others.square().sum(1)
        assert loss.risk.terms is not None
        strengths = strengths_of(own, total, squares, x.shape[1], loss.prior)
        value = value + loss.risk.terms(strengths, loss.prior).value
    if loss.divergence_weight:
        value = value + loss.divergence_weight * _any_divergence(others, loss.prior)
    return value.to(x.dtype)


def _any_divergence(evidence: Tensor, prior: float) -> Tensor:
    # The textbook's terms need float64 to cancel in.
    if prior == 1 and evidence.dtype == torch.float64:
        return textbook_divergence(evidence)
    return divergence_from(evidence, prior)


def textbook_divergence(evidence: Tensor) -> Tensor:
    """KL[D(1 + e) || D(1)] (M,) of rows (M, K) as the paper writes it, differentiable any number of times."""
    num_classes = evidence.shape[1]
    total = evidence.sum(1)
    strength = total + num_classes
    alpha = evidence + 1
    gammas = strength.lgamma() - strength.new_tensor(num_classes).lgamma() - alpha.lgamma().sum(1)
    return gammas + (evidence * alpha.digamma()).sum(1) - total * strength.digamma()
