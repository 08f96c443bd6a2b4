"""Checks of the settings that several encoders have."""

from __future__ import annotations

from collections.abc import Sequence

from nescio._checks import require_whole
from nescio.errors import InputError


def whole_numbers(name: str, values: object) -> tuple[int, ...]:
    """Refuse what is no list or tuple of whole numbers from 1 on; return it as a tuple."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise InputError(f"{name} must be a list of whole numbers, got {values!r}")
    for value in values:
        require_whole(name, value)
    return tuple(values)


def require_dropout(dropout: object) -> None:
    """Refuse what is no share from 0 to below 1."""
    if not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise InputError(f"dropout must be 0 or more and below 1, got {dropout!r}")
