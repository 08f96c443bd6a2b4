"""What all tools that are fitted after training check of what they are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from nescio._checks import describe
from nescio.errors import InputError
from nescio.opinions.categorical import Prediction


def require_prediction(prediction: object) -> Prediction:
    """Refuse what is neither an Opinion nor a Categorical; return it."""
    if not isinstance(prediction, Prediction):
        raise InputError(f"prediction must be an Opinion or a Categorical, got {describe(prediction)}")
    return prediction


def require_fields(name: str, cls: type[Any], values: object) -> dict[str, Any]:
    """Refuse what is no mapping of the fields of a dataclass, all of them and no others; return it.

    Args:
        name: What it is to be, for the message.
        cls: The dataclass.
        values: What a file holds.
    """
    if not isinstance(values, Mapping):
        raise InputError(f"{name} must be a mapping of fields, got {describe(values)}")
    names = {field.name for field in fields(cls)}
    if names != values.keys():
        lacks = ", ".join(sorted(names - values.keys())) or "-"
        unknown = ", ".join(sorted(str(one) for one in values.keys() - names)) or "-"
        raise InputError(f"{name} must have exactly its fields, got none of: {lacks}; and unknown: {unknown}")
    return dict(values)


def percent(share: float, digits: int = 10) -> str:
    """A share in words."""
    return f"{100 * share:.{digits}g}%"
