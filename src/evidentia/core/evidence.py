"""From logits to evidence: relu, softplus, exp.

All give evidence >= 0. exp is the default: relu can lose a class for good (a unit that is zero on every
input gets no gradient), exp can't.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from evidentia.errors import InputError

EvidenceFunction = Callable[[Tensor], Tensor]

# Within these bounds exp neither overflows, also summed and squared over many classes, nor gets so
# small that its gradient is lost to the optimiser.
EXP_LOWEST, EXP_HIGHEST = -10.0, 30.0


class _HeldExp(torch.autograd.Function):
    """exp of z held within bounds; its gradient goes on beyond them, as at the bound.

    A logit out of bounds can so come back: with a gradient of zero it would stay where it is.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(logits: Tensor) -> Tensor:
        return logits.clamp(EXP_LOWEST, EXP_HIGHEST).exp_()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (evidence,) = ctx.saved_tensors
        result: Tensor = gradient * evidence
        return result


def exp(logits: Tensor) -> Tensor:
    """exp(z) with z held within [-10, 30]; beyond, the value stays and the gradient goes on."""
    if not torch.is_grad_enabled():
        return logits.clamp(EXP_LOWEST, EXP_HIGHEST).exp()
    evidence: Tensor = _HeldExp.apply(logits)  # type: ignore[no-untyped-call]
    return evidence


def relu(logits: Tensor) -> Tensor:
    """max(z, 0), the paper's choice."""
    return torch.relu(logits)


def softplus(logits: Tensor) -> Tensor:
    """log(1 + exp(z))."""
    return torch.nn.functional.softplus(logits)


EVIDENCE_FUNCTIONS: dict[str, EvidenceFunction] = {"relu": relu, "softplus": softplus, "exp": exp}


def evidence_function(evidence: str | EvidenceFunction) -> EvidenceFunction:
    """The function of this name, or the callable itself."""
    if callable(evidence):
        return evidence
    if evidence not in EVIDENCE_FUNCTIONS:
        names = ", ".join(EVIDENCE_FUNCTIONS)
        raise InputError(f"evidence must be one of {names}, or a function, got {evidence!r}")
    return EVIDENCE_FUNCTIONS[evidence]
