"""Measures of doubt: one registry, with the unit, the range and the direction of each.

Metrics, abstention, tables and the command line all take their measures from here. Other packages add theirs
by an entry point of the group `nescio.measures`, or by `register_measure`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from nescio._registry import Registry
from nescio.errors import InputError
from nescio.opinions.categorical import Prediction
from nescio.opinions.opinion import Opinion

COMPARED = ("always", "opinion", "never")


@dataclass(frozen=True)
class Measure:
    """How much doubt there is in a prediction, as a number.

    Args:
        name: Name by which users ask for it.
        about: What it is, in one line.
        unit: "share" for a number from 0 to 1, "nats", or another word for tables.
        function: Function from a prediction to the measure (...).
        lowest: The least value, or None where there is none.
        highest: The greatest value as a function of the number of classes K, or None where there is none.
        higher_is_doubt: Whether a higher value means more doubt.
        needs_opinion: Whether it is derived from evidence, which a Categorical does not have.
        compared: Whether tables that compare measures list it: "always", for an "opinion" only (and other
            predictions with an uncertainty of their own), or "never", where it orders inputs as another
            measure does.

    Raises:
        InputError: If `compared` is not one of these.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.opinions import MEASURES
        >>> measure = MEASURES.get("mutual_information")
        >>> measure.unit, measure.lowest, round(measure.highest(10), 3)
        ('nats', 0.0, 2.303)
        >>> measure(Opinion(torch.tensor([[0.0, 0.0], [40.0, 40.0]])))
        tensor([0.1931, 0.0061])
    """

    name: str
    about: str
    unit: str
    function: Callable[[Prediction], Tensor]
    lowest: float | None = None
    highest: Callable[[int], float] | None = None
    higher_is_doubt: bool = True
    needs_opinion: bool = False
    compared: str = "always"

    def __post_init__(self) -> None:
        if self.compared not in COMPARED:
            raise InputError(f"compared must be one of {', '.join(COMPARED)}, got {self.compared!r}")

    def __call__(self, prediction: Prediction) -> Tensor:
        """The value of the measure for each prediction, (...)."""
        if self.needs_opinion and not isinstance(prediction, Opinion):
            raise InputError(
                f"the measure {self.name} needs an Opinion, which has evidence, got {prediction!r}"
            )
        return self.function(prediction)

    def doubt(self, prediction: Prediction) -> Tensor:
        """The value, turned so that more is more doubt, (...)."""
        value = self(prediction)
        return value if self.higher_is_doubt else -value


def _check(name: str, measure: Measure) -> None:
    if not isinstance(measure, Measure) or measure.name != name:
        raise InputError(f"the measure {name!r} must be a Measure of this name, got {measure!r}")


MEASURES: Registry[Measure] = Registry(
    "measure", "nescio.measures", check=_check, aliases={"vacuity": "uncertainty"}
)
"""All measures of doubt by name, each with its unit, its range and its direction."""


def register_measure(measure: Measure) -> None:
    """Add a measure of your own: abstention, metrics, tables and the command line then know it.

    Args:
        measure: The measure, under its own name.

    Raises:
        InputError: If it is no Measure, or another one has its name.

    Example:
        >>> from nescio.opinions import MEASURES, Measure, register_measure
        >>> margin = Measure(
        ...     "margin",
        ...     "between the two most probable classes",
        ...     "share",
        ...     lambda prediction: prediction.probabilities.topk(2).values.diff(dim=-1).squeeze(-1).neg(),
        ...     lowest=0.0,
        ...     highest=lambda num_classes: 1.0,
        ...     higher_is_doubt=False,
        ...     compared="never",
        ... )
        >>> register_measure(margin)
        >>> MEASURES.get("margin").about
        'between the two most probable classes'
    """
    if not isinstance(measure, Measure):
        raise InputError(f"a measure must be a Measure, got {measure!r}")
    MEASURES.register(measure.name, measure)


def measures_for(prediction: Prediction) -> list[Measure]:
    """Those that tables compare for this kind of prediction, in the order of the registry."""
    has_evidence = isinstance(prediction, Opinion)
    has_own_doubt = has_evidence or getattr(prediction, "own_uncertainty", None) is not None
    chosen = []
    for name in MEASURES:
        measure = MEASURES.get(name)
        fits = has_evidence or not measure.needs_opinion
        is_compared = measure.compared == "always" or (measure.compared == "opinion" and has_own_doubt)
        if fits and is_compared:
            chosen.append(measure)
    return chosen


def _of_opinion(method: str) -> Callable[[Prediction], Tensor]:
    def function(prediction: Prediction) -> Tensor:
        value: Tensor = getattr(prediction, method)()
        return value

    return function


def _one(num_classes: int) -> float:
    return 1.0


def _least_certain(num_classes: int) -> float:
    return 1 - 1 / num_classes


def _log_of_uniform(num_classes: int) -> float:
    """The differential entropy of the uniform Dirichlet: that of no other is greater."""
    return -math.lgamma(num_classes)


def _register_ours() -> None:
    ours = (
        Measure(
            "entropy",
            "entropy of the probabilities: all doubt",
            "nats",
            lambda prediction: prediction.entropy(),
            lowest=0.0,
            highest=math.log,
        ),
        Measure(
            "max_probability",
            "1 - the largest probability",
            "share",
            lambda prediction: 1 - prediction.max_probability(),
            lowest=0.0,
            highest=_least_certain,
        ),
        Measure(
            "uncertainty",
            "mass of 'I do not know' (vacuity); without doubt of its own the normalized entropy",
            "share",
            lambda prediction: prediction.uncertainty,
            lowest=0.0,
            highest=_one,
            compared="opinion",
        ),
        Measure(
            "mutual_information",
            "doubt that more evidence would lift (epistemic)",
            "nats",
            _of_opinion("mutual_information"),
            lowest=0.0,
            highest=math.log,
            needs_opinion=True,
        ),
        Measure(
            "expected_entropy",
            "doubt that is in the data (aleatoric)",
            "nats",
            _of_opinion("expected_entropy"),
            lowest=0.0,
            highest=math.log,
            needs_opinion=True,
        ),
        Measure(
            "differential_entropy",
            "entropy of the Dirichlet density",
            "nats",
            _of_opinion("differential_entropy"),
            highest=_log_of_uniform,
            needs_opinion=True,
        ),
        Measure(
            "dissonance",
            "conflict between beliefs",
            "share",
            _of_opinion("dissonance"),
            lowest=0.0,
            highest=_one,
            needs_opinion=True,
        ),
        Measure(
            "normalized_entropy",
            "entropy of the probabilities over ln K",
            "share",
            lambda prediction: prediction.entropy(normalized=True),
            lowest=0.0,
            highest=_one,
            compared="never",
        ),
    )
    for measure in ours:
        register_measure(measure)


_register_ours()
