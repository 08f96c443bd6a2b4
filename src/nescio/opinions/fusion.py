"""Fusion: one opinion from several about the same thing (same classes, same base rates)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import reduce

import torch
from torch import Tensor

from nescio._checks import describe
from nescio.errors import InputError, NescioWarning
from nescio.functional.evidence import MOST_EVIDENCE
from nescio.opinions.opinion import Opinion


def cumulative(evidence: Tensor) -> Tensor:
    """Independent sources: e = sum of e_i; evidence (M, ..., K) to (..., K)."""
    return evidence.sum(0)


def averaging(evidence: Tensor) -> Tensor:
    """Sources that saw the same: e = mean of e_i; evidence (M, ..., K) to (..., K)."""
    return evidence.mean(0)


def weighted(evidence: Tensor) -> Tensor:
    """Each source by its confidence c_i = 1 - u_i: e = sum c_i e_i / sum c_i; (M, ..., K) to (..., K)."""
    total = evidence.sum(-1, keepdim=True)
    confidence = total / (total + evidence.shape[-1])
    weight = confidence.sum(0)
    # Where no source has any confidence, all evidence is 0 and stays so.
    return (confidence * evidence).sum(0) / torch.where(weight > 0, weight, 1)


def constraint(evidence: Tensor) -> Tensor:
    """Reduced Dempster rule, e = e_1 + e_2 + e_1 e_2 / K in turn; (M, ..., K) to (..., K)."""
    warnings.warn(
        "the constraint rule can only lower the uncertainty, also where sources conflict or depend on each "
        "other; use cumulative or averaging unless the sources are reliable and independent",
        NescioWarning,
        stacklevel=3,
    )
    fused = reduce(lambda a, b: a + b + a * b / evidence.shape[-1], evidence.double().unbind(0))
    # Products of many saturated sources leave any type; beliefs keep their proportions.
    return (fused * (MOST_EVIDENCE / fused.amax(-1, keepdim=True)).clamp_max(1.0)).to(evidence.dtype)


RULES: dict[str, Callable[[Tensor], Tensor]] = {
    rule.__name__: rule for rule in (cumulative, averaging, weighted, constraint)
}


def fuse(opinions: Iterable[Opinion], rule: str = "cumulative") -> Opinion:
    """One opinion from several of the same shape, by the rule of this name."""
    if not isinstance(rule, str) or rule not in RULES:
        raise InputError(f"rule must be one of {', '.join(RULES)}, got {rule!r}")
    if not isinstance(opinions, Iterable):
        raise InputError(f"opinions must be a sequence of Opinion, got {describe(opinions)}")
    opinions = list(opinions)
    if not opinions or not all(isinstance(opinion, Opinion) for opinion in opinions):
        got = ", ".join(describe(opinion) for opinion in opinions) or "none"
        raise InputError(f"opinions must be one or more of type Opinion, got {got}")
    shapes = {opinion.evidence.shape for opinion in opinions}
    if len(shapes) > 1:
        got = ", ".join(describe(opinion.evidence) for opinion in opinions)
        raise InputError(f"opinions must have one shape, got {got}")
    return Opinion(RULES[rule](torch.stack([opinion.evidence for opinion in opinions])))
