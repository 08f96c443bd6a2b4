"""Checks of arguments that several functions share."""

from __future__ import annotations

import numpy as np

from nescio.errors import InputError


def check_whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """Refuse what is not a whole number of at least `least`, and at most `most` if that is given."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise InputError(f"{name} must be a whole number, got {value!r}")
    if most is not None and not least <= value <= most:
        raise InputError(f"{name} must be {least}..{most}, got {value}")
    if value < least:
        raise InputError(f"{name} must be at least {least}, got {value}")
