"""Posthoc: what is fitted after training, and kept with a model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from nescio._checks import describe
from nescio.errors import InputError
from nescio.opinions.categorical import Prediction
from nescio.posthoc.temperature import Temperature, discounted
from nescio.posthoc.trust import Trust

# Of what is fitted on machines that add up in another order.
_ROUNDING = 1e-3
_ROUNDING_NEAR_ZERO = 1e-6


class WithPValues(NamedTuple):
    """What a model finally says, and how usual the inputs are.

    Args:
        prediction: An Opinion of a method with evidence, else a Categorical.
        p_values: The conformal p-values (N,) of the inputs, see `Trust.p_values`; None without trust.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> WithPValues(Opinion(torch.zeros(1, 2)), None).p_values is None
        True
    """

    prediction: Prediction
    p_values: Tensor | None


@dataclass(frozen=True, eq=False)
class Posthoc:
    """What becomes of a prediction before it is said: a temperature, then a discount by the trust.

    Args:
        temperature: What makes the probabilities honest; None for none.
        trust: What discounts inputs far from the training data; None for none.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> opinion = Opinion(torch.tensor([[100.0, 0.0]]))
        >>> Posthoc(Temperature(0.5)).apply(opinion).prediction.evidence
        tensor([[10.,  0.]])
    """

    temperature: Temperature | None = None
    trust: Trust | None = None

    def apply(self, prediction: Prediction, features: Tensor | None = None) -> WithPValues:
        """What is finally said.

        Args:
            prediction: What the method says of N inputs.
            features: Features (N, F) of the inputs at the layer that the trust names; needed where there is
                trust.

        Returns:
            The prediction, and the p-values of the inputs where there is trust.

        Raises:
            InputError: If there is trust, and no such features.
        """
        if self.temperature is not None:
            prediction = self.temperature.apply(prediction)
        if self.trust is None:
            return WithPValues(prediction, None)
        if features is None:
            raise InputError(f"features must be given where there is trust, got {describe(features)}")
        trust = self.trust.to(features.device)
        distances = trust.distances(features)
        return WithPValues(discounted(prediction, trust.at(distances)), trust.p_values_at(distances))

    def parts(self) -> tuple[str, ...]:
        """The names of what was fitted: "temperature", "trust"."""
        return tuple(name for name in ("temperature", "trust") if getattr(self, name) is not None)

    def describe(self) -> str:
        """What becomes of a prediction, in words."""
        parts = []
        if self.temperature is not None:
            parts.append(f"temperature: {self.temperature.describe()}")
        if self.trust is not None:
            parts.append(f"trust: {self.trust.describe()}")
        return "; ".join(parts)

    def same_as(self, other: Posthoc | None) -> bool:
        """Whether another makes the same of every prediction.

        Args:
            other: Any, or none.
        """
        if other is None or self.settings() != other.settings():
            return False
        mine = self.tensors()
        others = other.tensors()
        if mine.keys() != others.keys():
            return False
        return all(mine[name].cpu().equal(others[name].cpu()) for name in mine)

    def is_fitted_like(self, other: Posthoc) -> bool:
        """Whether another was fitted to the same data, on any machine: their numbers differ by rounding.

        Args:
            other: What was fitted after the same training.
        """
        return _are_close(self.settings(), other.settings())

    def tensors(self) -> dict[str, Tensor]:
        """What a model file keeps, by name."""
        return {} if self.trust is None else self.trust.tensors()

    def settings(self) -> dict[str, Any]:
        """What the header of a model file keeps, plain data."""
        temperature = None
        if self.temperature is not None:
            temperature = self.temperature.settings()
        trust = None
        if self.trust is not None:
            trust = self.trust.settings()
        return {"temperature": temperature, "trust": trust}

    @classmethod
    def from_parts(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Posthoc:
        """Back from what a model file keeps.

        Args:
            settings: What `settings` gave.
            tensors: What `tensors` gave.

        Returns:
            The same.

        Raises:
            InputError: If they do not fit together.
        """
        temperature = None
        if settings["temperature"] is not None:
            temperature = Temperature(**settings["temperature"])
        trust = None
        if settings["trust"] is not None:
            trust = Trust.from_parts(settings["trust"], tensors)
        return cls(temperature, trust)


def _are_close(one: Any, other: Any) -> bool:
    """Whether plain data is the same but for the last digits of its numbers."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_are_close(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_are_close, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_ROUNDING, abs_tol=_ROUNDING_NEAR_ZERO)
    return bool(one == other)
