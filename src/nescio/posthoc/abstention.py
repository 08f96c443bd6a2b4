"""AbstentionRule: when to answer and when to say "I do not know", with a promise about the errors.

The promise holds for finite samples, by Clopper and Pearson's exact bound (1934) and the union bound. A score
u is less where a prediction is surer; a rule accepts u < t; error(t) is the true error of inputs with u < t.

1. Candidates are t = u_(c+1), the (c+1)-th smallest of n held-out scores, for counts c that are taken from n
   alone, in a fixed order; for c = n, t lies above every value of the measure (EVERYTHING).
2. Let j be the sample at that rank, ties put in random order. Given u_j = t the others are still independent
   draws, and that j has this rank tells of them only whether they lie below, at or above t. So those below t,
   m of them (m = c without ties, m <= c with), are independent draws of inputs with u < t, and their errors
   are Binomial(m, error(t)), whatever the law of u, discrete or not. For the fixed EVERYTHING this is plain.
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
from nescio._precision import exact
from nescio.errors import InputError, NescioWarning
from nescio.opinions.categorical import Prediction
from nescio.opinions.measures import MEASURES

EVERYTHING = 2.0  # above every measure that is a share: u < EVERYTHING for all that is not rejected
EVERYTHING_UNBOUNDED = 3e38  # the same for other measures: nearly the largest float32
NOTHING = -math.inf  # below every measure; null in JSON, which knows no infinity

_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

# What share of the held-out samples each candidate is to accept, in the order in which they are used: with
# few samples the first ones alone. Steps of 15%, and later those between; below 5% a rule is of little use.
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


@dataclass(frozen=True, kw_only=True)
class AbstentionRule:
    """When to answer: where a measure of doubt is below a threshold. Made by `for_error` or `for_coverage`.

    Args:
        threshold: A prediction is accepted where its measure is less.
        held_out: How many samples the rule was made from.
        held_out_coverage: The share of them that it accepts.
        met: Whether what was asked for could be had.
        measure: The name of a measure of doubt, see `nescio.opinions.MEASURES`.
        max_error: The error that was asked for among accepted inputs, at most.
        confidence: Probability with which max_error is promised.
        target_coverage: The share of inputs that was asked to be accepted.
        held_out_error: The share of errors among the accepted samples.
        bound: What the true error is at most, as promised.

    Raises:
        InputError: If a field is not what it must be, or they do not go together.

    Example:
        >>> import torch
        >>> from nescio import AbstentionRule, Opinion
        >>> evidence = torch.arange(400.0)
        >>> opinion = Opinion(torch.stack([evidence, torch.zeros(400)], 1))
        >>> labels = (evidence < 40).long()  # only those with little evidence are wrong
        >>> rule = AbstentionRule.for_error(opinion, labels, max_error=0.05)
        >>> rule.describe()
        'accepts 87% of held-out inputs; error among them at most 5% with 95% confidence'
        >>> rule.accept(Opinion(torch.tensor([[1.0, 0.0], [300.0, 0.0]])))
        tensor([False,  True])
    """

    threshold: float
    held_out: int
    held_out_coverage: float
    met: bool
    measure: str = "uncertainty"
    max_error: float | None = None
    confidence: float | None = None
    target_coverage: float | None = None
    held_out_error: float | None = None
    bound: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None or field.name not in _OPTIONAL:
                _require(field.name, value)
        most = _everything(self.measure)
        if self.threshold > most:
            raise InputError(f"threshold must be a number up to {most:g}, got {self.threshold!r}")
        _require_agreement(self)

    @classmethod
    def for_error(
        cls,
        prediction: Prediction,
        labels: Tensor,
        max_error: float,
        confidence: float = 0.95,
        measure: str = "uncertainty",
    ) -> AbstentionRule:
        """The rule that accepts the most and whose true error is at most `max_error`, with this confidence.

        The promise is for inputs drawn as the held-out ones were; none is made for inputs of another kind.
        On the same data a larger `max_error` never accepts less. If nothing can be promised the rule accepts
        nothing, and a warning names the least error that would be promised if it were asked for.

        Args:
            prediction: Prediction of held-out inputs (...) that had no part in training, drawn independently.
            labels: Their true classes (...).
            max_error: The share of errors among accepted inputs, between 0 and 1.
            confidence: Between 0 and 1.
            measure: The name of a measure of doubt.

        Returns:
            The rule.

        Raises:
            InputError: If an argument does not fit.

        Example:
            >>> import torch
            >>> from nescio import AbstentionRule, Categorical
            >>> sure = torch.linspace(0.5, 1, 400)
            >>> prediction = Categorical(torch.stack([sure, 1 - sure], 1))
            >>> labels = (sure < 0.6).long()
            >>> rule = AbstentionRule.for_error(prediction, labels, 0.1, measure="max_probability")
            >>> round(rule.threshold, 2), rule.met
            (0.41, True)
        """
        target = _require("max_error", max_error)
        delta = 1 - _require("confidence", confidence)
        scores = _HeldOut.of(prediction, _require_labels(labels, prediction), measure)
        chosen = scores.choose(target, delta)
        bound = None
        if chosen is not None:
            # The bound may come out a rounding above the target that was certified.
            bound = min(scores.bound(chosen.threshold, chosen.level), target)
        threshold = NOTHING if chosen is None else chosen.threshold
        rule = cls(
            threshold=threshold,
            measure=measure,
            max_error=target,
            confidence=float(confidence),
            met=chosen is not None,
            bound=bound,
            **scores.summary(threshold),
        )
        if not rule.met:
            promise = _least_promise(scores, target, delta)
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
        """The rule with the least threshold that accepts `target_coverage`; no promise about errors.

        Where too many are rejected for the target, the rule accepts all others, and a warning says so.

        Args:
            prediction: Prediction of held-out inputs (...).
            labels: Their true classes (...), or None where they are not known.
            target_coverage: The share of inputs to accept, above 0 and up to 1.
            measure: The name of a measure of doubt.

        Returns:
            The rule.

        Raises:
            InputError: If an argument does not fit.

        Example:
            >>> import torch
            >>> from nescio import AbstentionRule, Opinion
            >>> opinion = Opinion(torch.tensor([[0.5, 0.0], [2.0, 0.0], [9.0, 0.0], [40.0, 0.0]]))
            >>> rule = AbstentionRule.for_coverage(opinion, None, 0.5, measure="differential_entropy")
            >>> rule.accept(opinion)
            tensor([False, False,  True,  True])
        """
        target = _require("target_coverage", target_coverage)
        known = None
        if labels is not None:
            known = _require_labels(labels, prediction)
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
        """Whether to use each prediction.

        Args:
            prediction: Prediction of any inputs (...).

        Returns:
            True where the prediction is to be used, (...); never where it is vacuous.

        Raises:
            InputError: If it is no prediction, or the measure needs an Opinion and it is none.
        """
        return _score(prediction, self.measure) < self.threshold

    def describe(self) -> str:
        """One sentence for people."""
        if self.max_error is not None and not self.met:
            return f"accepts nothing: {self._no_promise()}"
        accepts = f"accepts {_percent(self.held_out_coverage)} of held-out inputs"
        if self.max_error is not None and self.confidence is not None:
            return f"{accepts}; error among them at most {_promise(self.max_error, self.confidence)}"
        if self.held_out_error is None:
            return f"{accepts}; their error is not known"
        return f"{accepts}; {_percent(self.held_out_error)} of those were wrong, and nothing is promised"

    def to_dict(self) -> dict[str, Any]:
        """For JSON: numbers, text, true, false and null."""
        values = asdict(self)
        if self.threshold == NOTHING:
            values["threshold"] = None
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> AbstentionRule:
        """The rule that `to_dict` wrote, also as model files of format 1 have it.

        Args:
            values: Every field by its name.

        Returns:
            The rule.

        Raises:
            InputError: If a field is missing, unknown or not what it must be.
        """
        if not isinstance(values, Mapping):
            raise InputError(f"an abstention rule must be a mapping of its fields, got {describe(values)}")
        given = _in_present_words(values)
        names = {field.name for field in fields(cls)}
        if names != given.keys():
            lacks = ", ".join(sorted(names - given.keys()))
            unknown = ", ".join(sorted(str(name) for name in given.keys() - names))
            raise InputError(
                f"an abstention rule must have exactly its fields, got none of: {lacks or '-'}; "
                f"and unknown: {unknown or '-'}"
            )
        if given["threshold"] is None:
            given["threshold"] = NOTHING
        return cls(**given)

    def _no_promise(self) -> str:
        assert self.max_error is not None
        assert self.confidence is not None
        promise = _promise(self.max_error, self.confidence)
        return f"no threshold promises an error of at most {promise} from {self.held_out} held-out samples"


def _in_present_words(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fields by the names of now: format 1 says target_error, and entropy for the normalized one."""
    given = dict(values)
    if "target_error" in given and "max_error" not in given:
        given["max_error"] = given.pop("target_error")
        if given.get("measure") == "entropy":
            given["measure"] = "normalized_entropy"
    return given


def _candidate_counts(size: int) -> list[int]:
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


def _levels(size: int, target: float, delta: float) -> dict[int, float]:
    """The level of each candidate in use, by its count; together delta at most."""
    counts = _candidate_counts(size)
    number = min(_number_of_candidates(size, target, delta), float(len(counts)))
    levels = {}
    for place in range(math.ceil(number)):
        part = min(number - place, 1.0)
        levels[counts[place]] = part * delta / number
    return levels


def _fewest_samples(target: float, level: float) -> int:
    """The least m with (1 - target)^m <= level: fewer can't certify the target, even without an error."""
    return math.ceil(min(math.log(level) / math.log1p(-target), 1e15))


def _binomial_cdf(errors: int, count: int, probability: float) -> float:
    """P(X <= errors) for X ~ Binomial(count, probability), 0 < probability < 1."""
    from scipy.special import betaincc

    if errors >= count:
        return 1.0
    return float(betaincc(errors + 1, count - errors, probability))


def _clopper_pearson(errors: int, count: int, level: float) -> float:
    """The upper bound of an error rate, exact: the p with P(Binomial(count, p) <= errors) = level."""
    from scipy.special import betainccinv

    if errors >= count:
        return 1.0
    return float(betainccinv(errors + 1, count - errors, level))


@dataclass(frozen=True)
class _Certified:
    """A threshold whose error is certified, and the level of the certificate."""

    threshold: float
    level: float


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """Held-out scores in growing order (n + 1), the largest possible last; errors among the first (n + 1)."""

    scores: Tensor
    errors: Tensor | None

    @classmethod
    def of(cls, prediction: Prediction, labels: Tensor | None, measure: str) -> _HeldOut:
        """Of predictions and checked labels (...); each counts as one independent sample."""
        _require("measure", measure)
        score = exact(_score(prediction, measure).detach().flatten()).cpu()
        if not score.numel():
            raise InputError(f"prediction must hold one held-out sample or more, got {len(score)}")
        ordered, order = score.sort()
        scores = torch.cat((ordered, torch.tensor([_everything(measure)], dtype=torch.float64)))
        if labels is None:
            return cls(scores, None)
        wrong = (labels.cpu() != prediction.labels.cpu()).flatten()[order]
        return cls(scores, torch.cat((torch.zeros(1, dtype=torch.long), wrong.cumsum(0))))

    @property
    def size(self) -> int:
        return len(self.scores) - 1

    def candidate(self, count: int) -> float:
        """The threshold that accepts `count` samples; fewer where scores are tied or rejected."""
        return float(self.scores[count])

    def covering(self, share: float) -> float:
        """The least score above this share of the samples, as far as they are not rejected."""
        needed = math.floor(share * self.size)
        while needed / self.size < share:
            needed += 1
        above = int(torch.searchsorted(self.scores, self.scores[needed - 1], right=True))
        return float(self.scores[min(above, self.size)])

    def accepted(self, threshold: float) -> int:
        """How many samples lie below the threshold."""
        below = torch.tensor(threshold, dtype=torch.float64)
        return int(torch.searchsorted(self.scores[:-1], below))

    def wrong(self, count: int) -> int:
        """Errors among the first `count`."""
        assert self.errors is not None
        return int(self.errors[count])

    def choose(self, target: float, delta: float) -> _Certified | None:
        """The candidate that accepts the most of those that are certified for the target."""
        levels = _levels(self.size, target, delta)
        for count in sorted(levels, reverse=True):
            threshold = self.candidate(count)
            if self.certifies(threshold, target, levels[count]):
                return _Certified(threshold, levels[count])
        return None

    def certifies(self, threshold: float, target: float, level: float) -> bool:
        """Whether the true error below the threshold is at most the target, but for this level."""
        count = self.accepted(threshold)
        return _binomial_cdf(self.wrong(count), count, target) <= level

    def bound(self, threshold: float, level: float) -> float:
        """What the true error below the threshold is at most, but for this level."""
        count = self.accepted(threshold)
        return _clopper_pearson(self.wrong(count), count, level)

    def summary(self, threshold: float) -> dict[str, Any]:
        """Fields of the rule that say what was seen."""
        count = self.accepted(threshold)
        error = None
        if count and self.errors is not None:
            error = self.wrong(count) / count
        return {"held_out": self.size, "held_out_coverage": count / self.size, "held_out_error": error}


def _everything(measure: str) -> float:
    """Above every value of the measure."""
    if MEASURES.get(measure).unit == "share":
        return EVERYTHING
    return EVERYTHING_UNBOUNDED


def _score(prediction: Prediction, measure: str) -> Tensor:
    """The doubt (...); the largest possible where a prediction is vacuous or not a number."""
    most = _everything(measure)
    value = MEASURES.get(measure).doubt(_require_prediction(prediction))
    value = value.nan_to_num(nan=most, posinf=most, neginf=-most).clamp(max=most)
    return value.masked_fill(prediction.is_vacuous, most)


def _least_promise(scores: _HeldOut, refused: float, delta: float) -> str:
    """The least error that would be promised if it were asked for, and what would be accepted, in words.

    What is certified for a target is so for all larger ones: bisection finds the least.
    """
    low = math.floor(1e4 * refused)
    high = 9999  # in hundredths of a percent, as it is said
    if scores.choose(high / 1e4, delta) is None:
        return "nothing can be promised"
    while high - low > 1:
        middle = (low + high) // 2
        if scores.choose(middle / 1e4, delta) is None:
            low = middle
        else:
            high = middle
    chosen = scores.choose(high / 1e4, delta)
    assert chosen is not None
    coverage = scores.accepted(chosen.threshold) / scores.size
    return f"the least that can be promised is {_percent(high / 1e4, 4)}, for {_percent(coverage)} of them"


def _remedy(size: int, target: float, delta: float) -> str:
    fewest = _fewest_samples(target, delta)
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


def _is_coverage(value: Any) -> bool:
    return _is_share(value) and value > 0


def _is_threshold(value: Any) -> bool:
    return _is_number(value) and not math.isnan(value)


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


# Each field of a rule: what it must be, in words and as a test.
_EXPECTED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "threshold": ("a number", _is_threshold),
    "held_out": ("a whole number from 1", _is_count),
    "held_out_coverage": ("a number from 0 to 1", _is_share),
    "met": ("true or false", _is_bool),
    "max_error": ("a number between 0 and 1", _is_inside),
    "confidence": ("a number between 0 and 1", _is_inside),
    "target_coverage": ("a number above 0 and up to 1", _is_coverage),
    "held_out_error": ("a number from 0 to 1", _is_share),
    "bound": ("a number from 0 to 1", _is_share),
}
_OPTIONAL = {"max_error", "confidence", "target_coverage", "held_out_error", "bound"}


def _require(name: str, value: Any) -> Any:
    """Refuse a value that is not what this field must be; return it, a number as float."""
    if name == "measure":
        if value not in MEASURES:
            raise InputError(f"measure must be one of {', '.join(MEASURES)}, got {value!r}")
        return value
    expected, holds = _EXPECTED[name]
    if not holds(value):
        raise InputError(f"{name} must be {expected}, got {value!r}")
    return float(value) if _is_number(value) else value


def _require_agreement(rule: AbstentionRule) -> None:
    """Refuse fields that contradict each other: one target, and a promise only where it was made and kept."""
    promised = rule.max_error is not None
    kept = promised and rule.met
    broken = promised and not rule.met
    problems = {
        "either max_error or target_coverage must be given": promised != (rule.target_coverage is None),
        "confidence must be given with max_error only": promised != (rule.confidence is not None),
        "bound must be given where max_error is met only": kept != (rule.bound is not None),
        "threshold must be null where max_error is not met only": broken != (rule.threshold == NOTHING),
        "bound must be at most max_error": (rule.bound or 0) > (rule.max_error or 1),
    }
    for sentence, found in problems.items():
        if found:
            raise InputError(f"{sentence}, got {rule.to_dict()}")


def _require_prediction(prediction: object) -> Prediction:
    if not isinstance(prediction, Prediction):
        raise InputError(f"prediction must be an Opinion or a Categorical, got {describe(prediction)}")
    return prediction


def _require_labels(labels: Tensor, prediction: Prediction) -> Tensor:
    """Refuse all but whole numbers, one for each prediction, each one of its classes."""
    shape = tuple(_require_prediction(prediction).labels.shape)
    if not isinstance(labels, Tensor) or labels.dtype not in _WHOLE or tuple(labels.shape) != shape:
        raise InputError(f"labels must be a tensor of whole numbers of shape {shape}, got {describe(labels)}")
    if labels.numel():
        least, most = (int(bound) for bound in labels.aminmax())
        if least < 0 or most >= prediction.num_classes:
            raise InputError(f"labels must be 0 to {prediction.num_classes - 1}, got {least} to {most}")
    return labels
