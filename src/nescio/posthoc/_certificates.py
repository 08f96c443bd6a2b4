"""Which thresholds are certified for an error, by held-out scores: the promise of an AbstentionRule.

The promise holds for finite samples, by Clopper and Pearson's exact bound (1934) and the union bound. A score
u is less where a prediction is surer; a rule accepts u < t; error(t) is the true error of inputs with u < t.

1. Candidates are t = u_(c+1), the (c+1)-th smallest of n held-out scores, for counts c < n that are taken
   from n alone, in a fixed order; and before them one fixed t (`fixed_threshold`).
2. Let j be the sample at that rank, ties put in random order. Given u_j = t the others are still independent
   draws, and that j has this rank tells of them only whether they lie below, at or above t. So those below t,
   m of them (m = c without ties, m <= c with), are independent draws of inputs with u < t, and their errors
   are Binomial(m, error(t)), whatever the law of u, discrete or not. For the fixed t this is plain.
3. Each candidate has a level; the levels add up to delta = 1 - confidence. t is certified for a target where
   P(Binomial(m, target) <= errors) is at most its level. If error(t) exceeds the target, that happens with
   the probability of its level at most; for any of the candidates, with delta at most.

What is certified for a target is certified for every larger one, so the accepted share never falls when more
errors are allowed. With x = -log(1 - target), P(Binomial(m, target) <= k) is the probability that the
(k+1)-th smallest of m standard exponential times exceeds x. By Renyi's representation that time is a sum of
independent exponential times, so its density and its survival function G are log-concave; log G(0) = 0, so
log G(r x) <= r log G(x) for r >= 1. A certificate for x, G(x) <= level(x), thus is one for r x wherever
level(r x) >= level(x)^r, which is to say where log(1 / level(x)) / x does not grow with x. The levels are
chosen so: the candidates share delta as if there were M of them, the last with what is left, and
log(M) grows by at most log(1 / delta) when log(x) grows by 1 (`_number_of_candidates`). The level of the last
one only grows until it has its full part.

The fixed t is a half for the uncertainty, as without a rule. Were it above every value, a promise that is
kept for all known inputs would let inputs of unknown kinds through, however great the doubt about them. Other
measures have no such limit, and theirs is EVERYTHING.

A rejected prediction, and one that is not a number, has the score EVERYTHING, and is never accepted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio._precision import to_float64
from nescio.errors import InputError
from nescio.opinions.categorical import Prediction
from nescio.opinions.measures import MEASURES
from nescio.posthoc._arguments import require_prediction

USUAL_LIMITS = {"uncertainty": 0.5}  # from there on no answer is given without a rule
EVERYTHING = 2.0  # above every measure that is a share: u < EVERYTHING for all that is not rejected
EVERYTHING_UNBOUNDED = 3e38  # the same for other measures: nearly the largest float32

# What share of the held-out samples each candidate is to accept, in the order in which they are used: with
# few samples the first ones alone. Steps of 15%, and later those between; below 5% a rule is of little use.
# The first, for all, is the fixed threshold.
# fmt: off
CANDIDATE_SHARES = (
    1.0, 0.92, 0.87, 0.756, 0.658, 0.572, 0.497, 0.432, 0.376, 0.327, 0.284, 0.247, 0.215, 0.811, 0.187,
    0.705, 0.163, 0.613, 0.141, 0.533, 0.123, 0.464, 0.107, 0.403, 0.093, 0.351, 0.081, 0.305, 0.07,
    0.265, 0.061, 0.053,
)
# fmt: on
# How many candidates share delta: (x / x_1)^power, up to so many, where x_1 belongs to the target that all
# samples without an error just certify. The largest of these holds. Chosen by coverage, see decision 5.
_GROWTH = ((3.0, 2), (2.2, 3), (1.3, len(CANDIDATE_SHARES)))


def candidate_counts(size: int) -> list[int]:
    """How many of `size` samples each candidate is to accept, in the order of their use."""
    counts: list[int] = []
    for share in CANDIDATE_SHARES:
        count = round(share * size)
        if count >= 1 and count not in counts:
            counts.append(count)
    return counts


def _number_of_candidates(size: int, target: float, delta: float) -> float:
    """How many candidates share delta for this target, from 1 on; a part of one has that part of a level."""
    needed = -math.log(delta)
    growth = -size * math.log1p(-target) / needed  # x / x_1
    if growth <= 1:
        return 1.0
    most = max(min(growth ** min(power, needed), limit) for power, limit in _GROWTH)
    return float(most)


def levels_of(size: int, target: float, delta: float) -> dict[int, float]:
    """The level of each candidate in use, by its count; together delta at most."""
    counts = candidate_counts(size)
    number = min(_number_of_candidates(size, target, delta), float(len(counts)))
    levels = {}
    for place in range(math.ceil(number)):
        part = min(number - place, 1.0)
        levels[counts[place]] = part * delta / number
    return levels


def fewest_without_error(target: float, level: float) -> int:
    """The least m with (1 - target)^m <= level: fewer can't certify the target, even without an error."""
    return math.ceil(min(math.log(level) / math.log1p(-target), 1e15))


def binomial_cdf(errors: int, count: int, probability: float) -> float:
    """P(X <= errors) for X ~ Binomial(count, probability), 0 < probability < 1."""
    from scipy.special import betaincc

    if errors >= count:
        return 1.0
    return float(betaincc(errors + 1, count - errors, probability))


def clopper_pearson(errors: int, count: int, level: float) -> float:
    """The upper bound of an error rate, exact: the p with P(Binomial(count, p) <= errors) = level."""
    from scipy.special import betainccinv

    if errors >= count:
        return 1.0
    return float(betainccinv(errors + 1, count - errors, level))


@dataclass(frozen=True)
class Certified:
    """A threshold whose error is certified, and the level of the certificate."""

    threshold: float
    level: float


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Held-out scores in growing order (n + 1), the largest possible last; errors among the first (n + 1)."""

    scores: Tensor
    errors: Tensor | None
    fixed: float  # the threshold that does not depend on them

    @classmethod
    def of(cls, prediction: Prediction, labels: Tensor | None, measure: str) -> HeldOutScores:
        """Of predictions and checked labels (...); each counts as one independent sample."""
        score = to_float64(doubt_of(prediction, measure).detach().flatten()).cpu()
        if not score.numel():
            raise InputError(f"prediction must hold one held-out sample or more, got {len(score)}")
        ordered, order = score.sort()
        scores = torch.cat((ordered, torch.tensor([above_all(measure)], dtype=torch.float64)))
        fixed = fixed_threshold(measure)
        if labels is None:
            return cls(scores, None, fixed)
        wrong = (labels.cpu() != prediction.labels.cpu()).flatten()[order]
        return cls(scores, torch.cat((torch.zeros(1, dtype=torch.long), wrong.cumsum(0))), fixed)

    @property
    def size(self) -> int:
        return len(self.scores) - 1

    def candidate(self, count: int) -> float:
        """The threshold that accepts `count` samples, fewer where scores are tied.

        Of all, or where the next sample is rejected, it is the fixed one. That has the greatest level itself,
        so that it is no candidate more.
        """
        if count == self.size or self.scores[count] == self.scores[-1]:
            return self.fixed
        return float(self.scores[count])

    def covering(self, share: float) -> float:
        """The least score above this share of the samples, as far as they are not rejected.

        Of all samples that are not rejected it is just above the largest, not above what may come; where all
        are rejected it accepts nothing.
        """
        most = float(self.scores[-1])
        kept = self.scores[self.scores < most]
        if not len(kept):
            return -most
        needed = math.floor(share * self.size)
        while needed / self.size < share:
            needed += 1
        if needed <= len(kept):
            above = kept[kept > kept[needed - 1]]
            if len(above):
                return float(above[0])
        # In float32, which predictions may be of, and where a threshold between its numbers would be none.
        return min(float(kept[-1].float().nextafter(torch.tensor(math.inf))), most)

    def accepted(self, threshold: float) -> int:
        """How many samples lie below the threshold."""
        below = torch.tensor(threshold, dtype=torch.float64)
        return int(torch.searchsorted(self.scores[:-1], below))

    def wrong(self, count: int) -> int:
        """Errors among the first `count`."""
        assert self.errors is not None
        return int(self.errors[count])

    def choose(self, target: float, delta: float) -> Certified | None:
        """The candidate that accepts the most of those that are certified for the target.

        Of two that accept the same, the one with the lower threshold.
        """
        chosen = None
        best = (0, 0.0)
        for count, level in levels_of(self.size, target, delta).items():
            threshold = self.candidate(count)
            accepts = (self.accepted(threshold), -threshold)
            if self.certifies(threshold, target, level) and (chosen is None or accepts > best):
                chosen = Certified(threshold, level)
                best = accepts
        return chosen

    def certifies(self, threshold: float, target: float, level: float) -> bool:
        """Whether the true error below the threshold is at most the target, but for this level."""
        count = self.accepted(threshold)
        return binomial_cdf(self.wrong(count), count, target) <= level

    def bound(self, threshold: float, level: float) -> float:
        """What the true error below the threshold is at most, but for this level."""
        count = self.accepted(threshold)
        return clopper_pearson(self.wrong(count), count, level)

    def summary(self, threshold: float) -> dict[str, Any]:
        """Fields of the rule that say what was seen."""
        count = self.accepted(threshold)
        error = None
        if count and self.errors is not None:
            error = self.wrong(count) / count
        return {"held_out": self.size, "held_out_coverage": count / self.size, "held_out_error": error}


def fixed_threshold(measure: str) -> float:
    """The threshold that does not depend on held-out samples."""
    return USUAL_LIMITS.get(MEASURES.get(measure).name, above_all(measure))


def above_all(measure: str) -> float:
    """Above every value of the measure."""
    if MEASURES.get(measure).unit == "share":
        return EVERYTHING
    return EVERYTHING_UNBOUNDED


def doubt_of(prediction: Prediction, measure: str) -> Tensor:
    """The doubt (...); the largest possible where a prediction is vacuous or not a number."""
    most = above_all(measure)
    value = MEASURES.get(measure).doubt(require_prediction(prediction))
    value = value.nan_to_num(nan=most, posinf=most, neginf=-most).clamp(max=most)
    return value.masked_fill(prediction.is_vacuous, most)
