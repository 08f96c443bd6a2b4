"""Fusion: one opinion from several about the same thing (same classes).

Each rule takes the evidence of M opinions (M, ..., K) and their common prior, and gives evidence (..., K).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from nescio._checks import describe, require_evidence
from nescio._precision import widest
from nescio.errors import InputError, NescioWarning
from nescio.functional.evidence import MOST_EVIDENCE
from nescio.opinions.opinion import Opinion, written_base_rates


def _cumulative(evidence: Tensor, prior: float) -> Tensor:
    return evidence.sum(0)


def _averaging(evidence: Tensor, prior: float) -> Tensor:
    return evidence.mean(0)


def _weighted(evidence: Tensor, prior: float) -> Tensor:
    """With c_i = 1 - u_i = E_i / (E_i + K prior): sum c_i e_i / sum c_i."""
    total = evidence.sum(-1, keepdim=True)
    confidence = total / (total + evidence.shape[-1] * prior)
    weight = confidence.sum(0)
    # Where no source has any confidence, all evidence is 0 and stays so.
    return (confidence * evidence).sum(0) / torch.where(weight > 0, weight, 1)


def _constraint(evidence: Tensor, prior: float) -> Tensor:
    """e_1 + e_2 + e_1 e_2 / (K prior) in turn."""
    warnings.warn(
        "the constraint rule can only lower the uncertainty, also where sources conflict or depend on each "
        "other; use cumulative or averaging unless the sources are reliable and independent",
        NescioWarning,
        stacklevel=3,
    )
    sources = widest(evidence).unbind(0)
    prior_strength = evidence.shape[-1] * prior
    fused = sources[0]
    for source in sources[1:]:
        fused = fused + source + fused * source / prior_strength
        if fused.dtype == torch.float32:  # where the product of all would leave it
            fused = _held(fused)
    # Products of many saturated sources leave any type; beliefs keep their proportions.
    return _held(fused).to(evidence.dtype)


def _held(evidence: Tensor) -> Tensor:
    """Scaled so that the greatest of a row (..., K) is not above the most that evidence can be."""
    # The greatest is never 0 here: the gradient of a quotient by 0 would be NaN.
    greatest = evidence.amax(-1, keepdim=True).clamp_min(MOST_EVIDENCE)
    return evidence * (MOST_EVIDENCE / greatest)


_RULES: dict[str, Callable[[Tensor, float], Tensor]] = {
    "cumulative": _cumulative,
    "averaging": _averaging,
    "weighted": _weighted,
    "constraint": _constraint,
}


def fuse(opinions: Iterable[Opinion], rule: str = "cumulative") -> Opinion:
    """One opinion from several about the same inputs.

    Args:
        opinions: One or more, of the same shape (..., K) and the same prior.
        rule: How evidence e_i is brought together.
            "cumulative": independent sources; the sum of e_i.
            "averaging": sources that saw the same; the mean of e_i.
            "weighted": each by its confidence c_i = 1 - u_i; sum c_i e_i / sum c_i.
            "constraint": the reduced Dempster rule, e_1 + e_2 + e_1 e_2 / (K prior) in turn. It can only
            lower the uncertainty, and a warning says so.

    Returns:
        The fused opinions (...), of the same prior, without raw labels. Base rates, where there are such,
        are averaged with the evidence of each opinion as its weight, whatever the rule.

    Raises:
        InputError: If there is no such rule, no opinion, they differ in shape or prior, or evidence on the
            CPU is below zero or not finite.

    Example:
        >>> import torch
        >>> from nescio import Opinion, fuse
        >>> camera = Opinion(torch.tensor([8.0, 0.0]))
        >>> radar = Opinion(torch.tensor([2.0, 8.0]))
        >>> fuse([camera, radar]).evidence
        tensor([10.,  8.])
        >>> fuse([camera, radar], "averaging").evidence
        tensor([5., 4.])
    """
    if not isinstance(rule, str) or rule not in _RULES:
        raise InputError(f"rule must be one of {', '.join(_RULES)}, got {rule!r}")
    if not isinstance(opinions, Iterable):
        raise InputError(f"opinions must be a sequence of Opinion, got {describe(opinions)}")
    opinions = list(opinions)
    if not opinions or not all(isinstance(opinion, Opinion) for opinion in opinions):
        got = ", ".join(describe(opinion) for opinion in opinions) or "none"
        raise InputError(f"opinions must be one or more of type Opinion, got {got}")
    shape = opinions[0].evidence.shape
    if any(opinion.evidence.shape != shape for opinion in opinions):
        got = ", ".join(describe(opinion.evidence) for opinion in opinions)
        raise InputError(f"opinions must have one shape, got {got}")
    prior = opinions[0].prior
    if any(opinion.prior != prior for opinion in opinions):
        got = ", ".join(f"{opinion.prior:g}" for opinion in opinions)
        raise InputError(f"opinions must have one prior, got {got}")
    evidence = torch.stack([opinion.evidence for opinion in opinions])
    require_evidence(evidence, None)
    return Opinion(_RULES[rule](evidence, prior), prior, base_rates=_fused_base_rates(opinions))


def _fused_base_rates(opinions: list[Opinion]) -> Tensor | None:
    """Their mean, weighted by the evidence of each; None where all opinions have equal ones."""
    rates = written_base_rates(opinions)
    if rates is None:
        return None
    weights = torch.stack([opinion.evidence.sum(-1, keepdim=True) for opinion in opinions])
    weights = torch.where(weights.sum(0) > 0, weights, 1)
    return (weights / weights.sum(0) * torch.stack(rates)).sum(0)
