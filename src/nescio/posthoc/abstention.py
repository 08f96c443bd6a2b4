"""AbstentionRule: when to answer and when to say "I do not know", with a promise about the errors.

The promise holds for finite samples; `nescio.posthoc._certificates` says what it rests on.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from numbers import Real
from typing import Any

from torch import Tensor

from nescio._checks import require_labels
from nescio.errors import InputError, NescioWarning
from nescio.opinions.categorical import Prediction
from nescio.opinions.measures import MEASURES
from nescio.posthoc._arguments import percent, require_fields, require_prediction
from nescio.posthoc._certificates import (
    HeldOutScores,
    above_all,
    doubt_of,
    fewest_without_error,
)

NOTHING = -math.inf  # below every measure; null in JSON, which knows no infinity


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
        object.__setattr__(self, "measure", MEASURES.get(self.measure).name)  # not by another name
        most = above_all(self.measure)
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
        The threshold is the best of those that are tried; of the uncertainty, none above all doubt is. On the
        same data a larger `max_error` never accepts less. If nothing can be promised the rule accepts
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
        _require("measure", measure)
        scores = HeldOutScores.of(prediction, _require_labels(labels, prediction), measure)
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
        _require("measure", measure)
        scores = HeldOutScores.of(prediction, known, measure)
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
            reason = f"all but {percent(rule.held_out_coverage, 3)} are rejected. Use a smaller target"
            if rule.held_out_coverage == 0:
                reason = "all are rejected"
            warnings.warn(
                f"no threshold accepts {percent(target, 3)} of the {rule.held_out} held-out inputs: {reason}",
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
        return doubt_of(prediction, self.measure) < self.threshold

    def describe(self) -> str:
        """One sentence for people."""
        if self.max_error is not None and not self.met:
            return f"accepts nothing: {self._no_promise()}"
        accepts = f"accepts {percent(self.held_out_coverage, 3)} of held-out inputs"
        if self.max_error is not None and self.confidence is not None:
            return f"{accepts}; error among them at most {_promise(self.max_error, self.confidence)}"
        if self.held_out_error is None:
            return f"{accepts}; their error is not known"
        return f"{accepts}; {percent(self.held_out_error, 3)} of those were wrong, and nothing is promised"

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
        if isinstance(values, Mapping):
            values = _in_present_words(values)
        given = require_fields("an abstention rule", cls, values)
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


def _least_promise(scores: HeldOutScores, refused: float, delta: float) -> str:
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
    return f"the least that can be promised is {percent(high / 1e4, 4)}, for {percent(coverage, 3)} of them"


def _remedy(size: int, target: float, delta: float) -> str:
    fewest = fewest_without_error(target, delta)
    more = f"at least {fewest}" if size < fewest else "more"
    return f"Use {more} held-out samples, a larger target or a better model"


def _promise(target: float, confidence: float) -> str:
    return f"{percent(target)} with {percent(confidence)} confidence"


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


def _require_labels(labels: Tensor, prediction: Prediction) -> Tensor:
    shape = require_prediction(prediction).labels.shape
    return require_labels(labels, shape, prediction.num_classes)
