"""Names of classes in figures."""

from __future__ import annotations

from collections.abc import Sequence

from nescio.errors import InputError

UNKNOWN = "I do not know"
LONGEST_NAME = 18
CHARACTER = 0.088  # inches, about


def class_names(classes: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """The names of so many classes, by default their numbers."""
    if classes is None:
        return tuple(str(place) for place in range(count))
    if len(classes) != count:
        raise InputError(f"classes must be the names of {count} classes, got {len(classes)}")
    return tuple(str(name) for name in classes)


def short_name(name: str) -> str:
    """A name on one line, not longer than there is room."""
    plain = " ".join(name.split())
    return plain if len(plain) <= LONGEST_NAME else plain[: LONGEST_NAME - 1] + "…"
