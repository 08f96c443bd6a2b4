"""From logits to evidence: relu, softplus, exp.

All give evidence >= 0. exp is the default: relu can lose a class for good (a unit that is zero on every
input gets no gradient), exp can't.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nescio.errors import InputError

EvidenceFunction = Callable[[Tensor], Tensor]

# Within these bounds exp neither overflows, also summed and squared over many classes, nor gets so
# small that its gradient is lost to the optimiser.
EXP_LOWEST = -10.0
EXP_HIGHEST = 30.0
# All evidence is held below this: there u < K / 1e15, and squares still fit a float32 for many classes.
MOST_EVIDENCE = 1e15
# Below this softplus(z) is exp(z) to the last digit of a float32, and of most float64.
_SOFTPLUS_IS_EXP = -30.0


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
    if torch.compiler.is_compiling() and not torch.compiler.is_exporting():
        # The same without a class of its own, which a compiler does not follow into vmap: what holds a logit
        # counts as a constant.
        held_by = (logits.clamp(EXP_LOWEST, EXP_HIGHEST) - logits).detach()
        return (logits + held_by).exp()
    evidence: Tensor = _HeldExp.apply(logits)  # type: ignore[no-untyped-call]
    return evidence


def relu(logits: Tensor) -> Tensor:
    """max(z, 0), the paper's choice; held at 1e15."""
    # Not clamp(0, ...), whose gradient at 0 is 1: that of torch's relu and of the kernels is 0.
    return torch.relu(logits).clamp_max(MOST_EVIDENCE)


def softplus(logits: Tensor) -> Tensor:
    """log(1 + exp(z)); held at 1e15."""
    return torch.nn.functional.softplus(logits).clamp_max(MOST_EVIDENCE)


EVIDENCE_FUNCTIONS: dict[str, EvidenceFunction] = {"relu": relu, "softplus": softplus, "exp": exp}


def evidence_function(evidence: str | EvidenceFunction) -> EvidenceFunction:
    """The function of this name, or the callable itself."""
    if callable(evidence):
        return evidence
    if not isinstance(evidence, str) or evidence not in EVIDENCE_FUNCTIONS:
        names = ", ".join(EVIDENCE_FUNCTIONS)
        raise InputError(f"evidence must be one of {names}, or a function, got {evidence!r}")
    return EVIDENCE_FUNCTIONS[evidence]


def log_evidence(evidence: str, logits: Tensor) -> Tensor:
    """ln of the evidence of logits, finite for all that are, for "exp" and "softplus"; relu has none."""
    if evidence == "exp":
        return exp(logits).log()
    if evidence == "softplus":
        # ln softplus(z) is z where exp(z) is next to nothing.
        is_low = logits < _SOFTPLUS_IS_EXP
        return torch.where(is_low, logits, softplus(logits.clamp_min(_SOFTPLUS_IS_EXP)).log())
    raise InputError(f"evidence must be exp or softplus to have a logarithm, got {evidence!r}")


def logits_for(evidence: str, values: Tensor) -> Tensor:
    """Logits whose evidence, by the function of this name, is these values; for none the least there is."""
    if evidence == "relu":
        return values
    values = values.clamp_min(torch.finfo(values.dtype).tiny)
    if evidence == "exp":
        return values.log()
    return values + torch.log(-torch.expm1(-values))  # the inverse of softplus


class Activation(NamedTuple):
    """An evidence function in four forms.

    function: differentiable. into: logits into a buffer of evidence. chain: evidence becomes, in place, its
    own derivative by the logits times a gradient. scaled: the same times a number, as a new tensor; it is
    given a zero () to add to.
    least: the least evidence that it gives.
    """

    function: EvidenceFunction
    into: Callable[[Tensor, Tensor], Tensor]
    chain: Callable[[Tensor, Tensor], Tensor]
    scaled: Callable[[Tensor, Tensor, float, Tensor], Tensor]
    least: float = 0.0


def _exp_into(logits: Tensor, out: Tensor) -> Tensor:
    return torch.clamp(logits, EXP_LOWEST, EXP_HIGHEST, out=out).exp_()


def _relu_into(logits: Tensor, out: Tensor) -> Tensor:
    return torch.clamp(logits, 0.0, MOST_EVIDENCE, out=out)


def _softplus_into(logits: Tensor, out: Tensor) -> Tensor:
    return out.copy_(softplus(logits))


def _held(evidence: Tensor) -> Tensor:
    return evidence.clamp_max(MOST_EVIDENCE)


def _held_into(evidence: Tensor, out: Tensor) -> Tensor:
    return torch.clamp_max(evidence, MOST_EVIDENCE, out=out)


def _exp_scaled(e: Tensor, gradient: Tensor, scale: float, zero: Tensor) -> Tensor:
    return torch.addcmul(zero, e, gradient, value=scale)


def _relu_scaled(e: Tensor, gradient: Tensor, scale: float, zero: Tensor) -> Tensor:
    return torch.addcmul(zero, e.sign(), gradient, value=scale)


def _softplus_scaled(e: Tensor, gradient: Tensor, scale: float, zero: Tensor) -> Tensor:
    return torch.addcmul(zero, e.neg().expm1_(), gradient, value=-scale)


# For what is evidence already.
IDENTITY = Activation(
    _held,
    _held_into,
    lambda e, gradient: e.copy_(gradient),
    lambda e, gradient, scale, zero: gradient * scale,
)
ACTIVATIONS = {
    "exp": Activation(
        exp, _exp_into, lambda e, gradient: e.mul_(gradient), _exp_scaled, least=math.exp(EXP_LOWEST)
    ),
    "relu": Activation(relu, _relu_into, lambda e, gradient: e.sign_().mul_(gradient), _relu_scaled),
    "softplus": Activation(
        softplus,
        _softplus_into,
        lambda e, gradient: e.neg_().expm1_().neg_().mul_(gradient),
        _softplus_scaled,
    ),
}
