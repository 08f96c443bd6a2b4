"""AbstentionRule: when to answer and when to say "I do not know", with a promise about the errors.

The promise holds for finite samples, by Clopper and Pearson's exact bound (1934) and the union bound. A score
u is less where a prediction is surer; a rule accepts u < t; error(t) is the true error of inputs with u < t.

1. Candidates are t = u_(c+1), the (c+1)-th smallest of n held-out scores, for G counts c that are taken from
   n, the target and the confidence alone; for c = n, t = EVERYTHING, which lies above every measure.
2. Let j be the sample at that rank, ties put in random order. Given u_j = t the others are still independent
   draws, and that j has this rank tells of them only whether they lie below, at or above t. So those below t,
   m of them (m = c without ties, m <= c with), are independent draws of inputs with u < t, and their errors
   are Binomial(m, error(t)), whatever the law of u, discrete or not. For the fixed EVERYTHING this is plain.
3. t is certified where P(Binomial(m, target) <= errors) <= delta / G, delta = 1 - confidence. If error(t)
   exceeds the target that happens with probability delta / G at most; for any of G candidates, delta at most.

A rejected prediction, and one that is not a number, has the score EVERYTHING, and is never accepted.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from nescio._checks import describe
from nescio.errors import InputError, NescioWarning
from nescio.opinions.categorical import Prediction

EVERYTHING = 2.0  # above every measure: u < EVERYTHING for all that is not rejected
NOTHING = -math.inf  # below every measure; null in JSON, which knows no infinity

# The names of measures; each is 0 where a prediction is sure, 1 at most.
MEASURES: dict[str, Callable[[Prediction], Tensor]] = {
    "uncertainty": lambda prediction: prediction.uncertainty,
    "entropy": lambda prediction: prediction.entropy(normalized=True),
    "max_probability": lambda prediction: 1 - prediction.max_probability(),
}

_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

MOST_CANDIDATES = 32
LEAST_STEP = 1.05  # candidates closer than this cost confidence and gain no coverage
LEAST_COVERAGE = 0.05  # below it a rule is of little use; candidates are better spent above


@dataclass(frozen=True, kw_only=True)
class AbstentionRule:
    """Accepts a prediction whose measure is less than the threshold; made by `for_error` or `for_coverage`.

    held_out: how many samples it was made from; held_out_coverage: the share of them that it accepts;
    held_out_error: the share of errors among those; bound: what the true error is at most, as promised.
    """

    threshold: float
    held_out: int
    held_out_coverage: float
    met: bool
    measure: str = "uncertainty"
    target_error: float | None = None
    confidence: float | None = None
    target_coverage: float | None = None
    held_out_error: float | None = None
    bound: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) is not None or field.name not in _OPTIONAL:
                _require(field.name, getattr(self, field.name))
        _require_agreement(self)

    @classmethod
    def for_error(
        cls,
        prediction: Prediction,
        labels: Tensor,
        target_error: float,
        confidence: float = 0.95,
        measure: str = "uncertainty",
    ) -> AbstentionRule:
        """The most coverage whose true error is at most `target_error`, with this confidence.

        prediction and labels (...) are of held-out inputs that had no part in training, drawn independently
        as later ones will be: the promise is for such inputs, and none is made for inputs of another kind.
        If nothing can be promised the rule accepts nothing, and a warning names the best that was tried.
        """
        target, delta = _require("target_error", target_error), 1 - _require("confidence", confidence)
        scores = _HeldOut.of(prediction, _require_labels(labels, prediction), measure)
        counts = candidate_counts(scores.size, target, delta)
        thresholds = [scores.candidate(count) for count in counts]
        level = delta / len(counts)
        chosen = next((t for t in reversed(thresholds) if scores.certifies(t, target, level)), NOTHING)
        met = chosen > NOTHING
        rule = cls(
            threshold=chosen,
            measure=measure,
            target_error=target,
            confidence=float(confidence),
            met=met,
            # The bisection of the bound may end a rounding above the target that was certified.
            bound=min(scores.bound(chosen, level), target) if met else None,
            **scores.summary(chosen),
        )
        if not met:
            promise = _best_promise(scores, thresholds, level)
            remedy = _remedy(scores.size, target, delta)
            warnings.warn(f"{rule._no_promise()}; {promise}. {remedy}", NescioWarning, stacklevel=2)
        return rule

    @classmethod
    def for_coverage(
        cls,
        prediction: Prediction,
        labels: Tensor | None,
        target_coverage: float,
        measure: str = "uncertainty",
    ) -> AbstentionRule:
        """The least threshold that accepts `target_coverage` of the held-out inputs; no promise about errors.

        Where too many are rejected for the target, the rule accepts all others, and a warning says so.
        """
        target = _require("target_coverage", target_coverage)
        known = None if labels is None else _require_labels(labels, prediction)
        scores = _HeldOut.of(prediction, known, measure)
        threshold = scores.covering(target)
        summary = scores.summary(threshold)
        rule = cls(
            threshold=threshold,
            measure=measure,
            target_coverage=target,
            met=summary["held_out_coverage"] >= target,
            **summary,
        )
        if not rule.met:
            warnings.warn(
                f"no threshold accepts {_percent(target)} of the {rule.held_out} held-out inputs: all but "
                f"{_percent(rule.held_out_coverage)} are rejected. Use a smaller target",
                NescioWarning,
                stacklevel=2,
            )
        return rule

    def accept(self, prediction: Prediction) -> Tensor:
        """True where the prediction is to be used, (...); never where it is rejected."""
        return _score(prediction, self.measure) < self.threshold

    def describe(self) -> str:
        """One sentence for people."""
        if self.target_error is not None and not self.met:
            return f"accepts nothing: {self._no_promise()}"
        accepts = f"accepts {_percent(self.held_out_coverage)} of held-out inputs"
        if self.target_error is not None and self.confidence is not None:
            return f"{accepts}; error among them at most {_promise(self.target_error, self.confidence)}"
        if self.held_out_error is None:
            return f"{accepts}; their error is not known"
        return f"{accepts}; {_percent(self.held_out_error)} of those were wrong, and nothing is promised"

    def to_dict(self) -> dict[str, Any]:
        """For JSON: numbers, text, true, false and null."""
        return asdict(self) | {"threshold": None if self.threshold == NOTHING else self.threshold}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> AbstentionRule:
        """The rule that `to_dict` wrote; every field is required and checked."""
        if not isinstance(values, Mapping):
            raise InputError(f"an abstention rule must be a mapping of its fields, got {describe(values)}")
        names, given = {field.name for field in fields(cls)}, set(values)
        if names != given:
            lacks, unknown = (", ".join(sorted(map(str, part))) for part in (names - given, given - names))
            raise InputError(
                f"an abstention rule must have exactly its fields, got none of: {lacks or '-'}; "
                f"and unknown: {unknown or '-'}"
            )
        return cls(**{**values, "threshold": NOTHING if values["threshold"] is None else values["threshold"]})

    def _no_promise(self) -> str:
        assert self.target_error is not None
        assert self.confidence is not None
        promise = _promise(self.target_error, self.confidence)
        return f"no threshold promises an error of at most {promise} from {self.held_out} held-out samples"


def candidate_counts(size: int, target: float, delta: float) -> list[int]:
    """How many of `size` samples each candidate is to accept, growing; never a matter of the scores.

    A geometric grid from the fewest that could certify the target, or LEAST_COVERAGE, to all of them.
    """

    def first(candidates: int) -> int:
        return max(fewest_samples(target, delta / candidates), math.ceil(LEAST_COVERAGE * size))

    sizes = range(MOST_CANDIDATES, 1, -1)
    candidates = next((g for g in sizes if first(g) * LEAST_STEP ** (g - 1) <= size), 1)
    if candidates == 1:
        return [size]
    ratio = size / first(candidates)
    return sorted({round(first(candidates) * ratio ** (i / (candidates - 1))) for i in range(candidates)})


def fewest_samples(target: float, level: float) -> int:
    """The least m with (1 - target)^m <= level: fewer can't certify the target, even without an error."""
    return math.ceil(min(math.log(level) / math.log1p(-target), 1e15))


def binomial_cdf(errors: int, count: int, probability: float) -> float:
    """P(X <= errors) for X ~ Binomial(count, probability), 0 < probability < 1.

    Summed over the shorter tail, from its largest term down to those that no longer matter.
    """
    if errors >= count:
        return 1.0
    if errors <= count * probability:
        return _lower_tail(errors, count, probability)
    return 1 - _lower_tail(count - errors - 1, count, 1 - probability)


def _lower_tail(errors: int, count: int, probability: float) -> float:
    """P(X <= errors) where errors <= count * probability: each term is less than the one above it."""
    ways = math.lgamma(count + 1) - math.lgamma(errors + 1) - math.lgamma(count - errors + 1)
    odds = errors * math.log(probability) + (count - errors) * math.log1p(-probability)
    term = total = math.exp(ways + odds)
    for k in range(errors, 0, -1):
        term *= k * (1 - probability) / ((count - k + 1) * probability)
        total += term
        if term <= 1e-15 * total:
            break
    return total


def clopper_pearson(errors: int, count: int, level: float) -> float:
    """The upper bound of an error rate, exact: the p with P(Binomial(count, p) <= errors) = level."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if binomial_cdf(errors, count, middle) <= level:
            high = middle
        else:
            low = middle
    return high


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """Held-out scores in growing order (n + 1), EVERYTHING last, and the errors among the first m (n + 1)."""

    scores: Tensor
    errors: Tensor | None

    @classmethod
    def of(cls, prediction: Prediction, labels: Tensor | None, measure: str) -> _HeldOut:
        """Of predictions and checked labels (...); each counts as one independent sample."""
        _require("measure", measure)
        score = _score(prediction, measure).detach().flatten().double().cpu()
        if not score.numel():
            raise InputError(f"prediction must hold one held-out sample or more, got {len(score)}")
        ordered, order = score.sort()
        scores = torch.cat((ordered, torch.tensor([EVERYTHING], dtype=torch.float64)))
        if labels is None:
            return cls(scores, None)
        wrong = (labels.cpu() != prediction.labels.cpu()).flatten()[order]
        return cls(scores, torch.cat((torch.zeros(1, dtype=torch.long), wrong.cumsum(0))))

    @property
    def size(self) -> int:
        """n."""
        return len(self.scores) - 1

    def candidate(self, count: int) -> float:
        """The threshold that accepts `count` samples; fewer where scores are tied or rejected."""
        return float(self.scores[count])

    def covering(self, share: float) -> float:
        """The least score above this share of the samples, as far as they are not rejected."""
        least = math.floor(share * self.size)
        needed = next(count for count in (least, least + 1, least + 2) if count / self.size >= share)
        above = int(torch.searchsorted(self.scores, self.scores[needed - 1], right=True))
        return float(self.scores[min(above, self.size)])

    def accepted(self, threshold: float) -> int:
        """m, how many lie below the threshold."""
        below = torch.tensor(threshold, dtype=torch.float64)
        return int(torch.searchsorted(self.scores[:-1], below))

    def wrong(self, count: int) -> int:
        """Errors among the first `count`."""
        assert self.errors is not None
        return int(self.errors[count])

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
        error = self.wrong(count) / count if count and self.errors is not None else None
        return {"held_out": self.size, "held_out_coverage": count / self.size, "held_out_error": error}


def _score(prediction: Prediction, measure: str) -> Tensor:
    """The measure (...); EVERYTHING where a prediction is rejected or not a number."""
    value = MEASURES[measure](_require_predictive(prediction))
    value = value.nan_to_num(nan=EVERYTHING).clamp(max=EVERYTHING)
    return value.masked_fill(prediction.is_vacuous, EVERYTHING)


def _best_promise(scores: _HeldOut, thresholds: list[float], level: float) -> str:
    """The least bound of all candidates and its coverage, in words."""
    best, bound = NOTHING, 1.0
    for threshold in reversed(thresholds):
        if scores.certifies(threshold, bound * (1 - 1e-6), level):  # cheaper than a bound for each
            best, bound = threshold, scores.bound(threshold, level)
    if best == NOTHING:
        return "nothing can be promised"
    rounded_up = math.ceil(1e4 * bound) / 1e4
    coverage = scores.accepted(best) / scores.size
    return f"the best threshold tried promises {_percent(rounded_up, 4)} at coverage {coverage:.2f}"


def _remedy(size: int, target: float, delta: float) -> str:
    fewest = fewest_samples(target, delta)
    more = f"at least {fewest}" if size < fewest else "more"
    return f"Use {more} held-out samples, a larger target or a better model"


def _percent(share: float, digits: int = 3) -> str:
    return f"{100 * share:.{digits}g}%"


def _promise(target: float, confidence: float) -> str:
    return f"{_percent(target, 10)} with {_percent(confidence, 10)} confidence"


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_inside(value: Any) -> bool:
    return _is_number(value) and 0 < value < 1


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


# Each field of a rule: what it must be, in words and as a test.
_EXPECTED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "threshold": (f"a number up to {EVERYTHING:g}", lambda value: _is_number(value) and value <= EVERYTHING),
    "held_out": ("a whole number from 1", lambda value: type(value) is int and value > 0),
    "held_out_coverage": ("a number from 0 to 1", _is_share),
    "met": ("true or false", lambda value: isinstance(value, bool)),
    "measure": (f"one of {', '.join(MEASURES)}", lambda value: isinstance(value, str) and value in MEASURES),
    "target_error": ("a number between 0 and 1", _is_inside),
    "confidence": ("a number between 0 and 1", _is_inside),
    "target_coverage": ("a number above 0 and up to 1", lambda value: _is_share(value) and value > 0),
    "held_out_error": ("a number from 0 to 1", _is_share),
    "bound": ("a number from 0 to 1", _is_share),
}
_OPTIONAL = {"target_error", "confidence", "target_coverage", "held_out_error", "bound"}


def _require(name: str, value: Any) -> Any:
    """The value, a number as float; an error if it is not what this field must be."""
    expected, holds = _EXPECTED[name]
    if not holds(value):
        raise InputError(f"{name} must be {expected}, got {value!r}")
    return float(value) if _is_number(value) else value


def _require_agreement(rule: AbstentionRule) -> None:
    """Fields together: one target, and a promise only where one was made and kept."""
    promised = rule.target_error is not None
    kept, broken = promised and rule.met, promised and not rule.met
    problems = {
        "either target_error or target_coverage must be given": promised != (rule.target_coverage is None),
        "confidence must be given with target_error only": promised != (rule.confidence is not None),
        "bound must be given where target_error is met only": kept != (rule.bound is not None),
        "threshold must be null where target_error is not met only": broken != (rule.threshold == NOTHING),
        "bound must be at most target_error": (rule.bound or 0) > (rule.target_error or 1),
    }
    for sentence, found in problems.items():
        if found:
            raise InputError(f"{sentence}, got {rule.to_dict()}")


def _require_predictive(prediction: object) -> Prediction:
    if not isinstance(prediction, Prediction):
        raise InputError(f"prediction must be an Opinion or a Categorical, got {describe(prediction)}")
    return prediction


def _require_labels(labels: Tensor, prediction: Prediction) -> Tensor:
    """Whole numbers, one for each prediction, each one of its classes."""
    shape = tuple(_require_predictive(prediction).labels.shape)
    if not isinstance(labels, Tensor) or labels.dtype not in _WHOLE or tuple(labels.shape) != shape:
        raise InputError(f"labels must be a tensor of whole numbers of shape {shape}, got {describe(labels)}")
    if labels.numel():
        least, most = (int(bound) for bound in labels.aminmax())
        if least < 0 or most >= prediction.num_classes:
            raise InputError(f"labels must be 0 to {prediction.num_classes - 1}, got {least} to {most}")
    return labels
