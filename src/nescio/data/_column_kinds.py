"""What the columns of a training table hold: numbers, categories, dates; and which of them teach nothing."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nescio.data._columns import (
    BOOLEANS,
    DATE_STYLES,
    LARGEST_NUMBER,
    NUMBER_STYLES,
    CategoryColumn,
    Column,
    DateColumn,
    NumberColumn,
    as_days,
    as_styled_number,
    is_gap,
)
from nescio.errors import DataError, NescioWarning

MOST_CATEGORIES = 100
# From so many rows on, a column that counts them, or holds a different text in each, is no coincidence.
ENOUGH_ROWS = 20
# A column with more numbers than that, and hardly anything else, is one of numbers with a mistake in it.
MANY_NUMBERS = 20
MOSTLY = 0.9
# Beyond this ratio of mean to spread, float32 would lose digits that matter.
LARGE_OFFSET = 1e4

_INDEX_NAMES = frozenset({"", "unnamed: 0", "index", "row", "rowname", "rownames", "no", "nr", "#", "id"})
_IDENTIFIER_NAME = re.compile(r"(?i:(.*[_ -])?(id|uuid|guid))|.*[a-z](Id|ID)")


@dataclass(frozen=True)
class Dropped:
    """A column that is not read, and why. is_text: whether one could learn from its texts instead."""

    name: str
    reason: str
    is_text: bool = False


def infer_column(
    name: str, cells: Sequence[str], place_of: Callable[[int], str], is_first: bool = False
) -> Column | Dropped:
    """What a column holds, or why it is not read.

    Args:
        name: Name of the column.
        cells: All of them.
        place_of: Where a row is, for messages.
        is_first: Whether it is the first of its table, as an index without a name is.

    Raises:
        DataError: If it holds numbers but for a few cells.
    """
    counts = Counter(cells)
    has_gaps = any(is_gap(cell) for cell in counts)
    known = Counter({cell: count for cell, count in counts.items() if not is_gap(cell)})
    if not known:
        return Dropped(name, "holds nothing")
    if len(known) == 1 and not has_gaps:
        return Dropped(name, f"holds nothing but {next(iter(known))!r}")
    for style in NUMBER_STYLES:
        if all(as_styled_number(cell, style) is not None for cell in known):
            return _number_column(name, cells, known, style, has_gaps, is_first)
    for style in DATE_STYLES:
        if all(as_days(cell, style) is not None for cell in known):
            return _date_column(name, known, style, has_gaps)
    _require_no_mistake(name, cells, known, place_of)
    return _category_column(name, known, has_gaps)


def _number_column(
    name: str, cells: Sequence[str], known: Counter[str], style: str, has_gaps: bool, is_first: bool
) -> Column | Dropped:
    by_text = {cell: as_styled_number(cell, style) or 0.0 for cell in known}
    values = np.array([by_text[cell] for cell in cells if cell in by_text])
    if not has_gaps:
        if _counts_rows(name, values, is_first):
            return Dropped(name, "counts the rows")
        if _is_identifier(name, values):
            return Dropped(name, "is a number of its own for each row, by its name an identifier")
    # The others are refused when they are encoded, with their place.
    finite = values[np.abs(values) <= LARGEST_NUMBER]
    offset = 0.0
    filled = None
    if len(finite):
        mean = float(finite.mean())
        if abs(mean) > LARGE_OFFSET * float(finite.std()) > 0:
            offset = float(round(mean))
        if has_gaps:
            filled = mean - offset
    return NumberColumn(name, offset, filled, style)


def _counts_rows(name: str, values: np.ndarray, is_first: bool) -> bool:
    """0, 1, 2 and so on, or from 1 on; of few rows, or behind other columns, by its name only."""
    is_enough = is_first and len(values) >= ENOUGH_ROWS
    if not is_enough and name.lower() not in _INDEX_NAMES:
        return False
    return bool(values[0] in (0, 1) and (np.diff(values) == 1).all())


def _is_identifier(name: str, values: np.ndarray) -> bool:
    if len(values) < ENOUGH_ROWS or not _IDENTIFIER_NAME.fullmatch(name):
        return False
    return bool((values == np.floor(values)).all() and len(np.unique(values)) == len(values))


def _date_column(name: str, known: Counter[str], style: str, has_gaps: bool) -> DateColumn:
    days = np.array([as_days(cell, style) for cell in known], dtype=np.float64)
    counts = np.array(list(known.values()))
    if style == "month/day/year" and all(as_days(cell, "day/month/year") is not None for cell in known):
        warnings.warn(
            f"column {name}: dates such as {next(iter(known))} are read as month/day/year; write them as "
            "year-month-day if that is wrong",
            NescioWarning,
            stacklevel=2,
        )
    origin = float(np.floor(days.min()))
    has_time = bool((days != np.floor(days)).any())
    filled = float(np.average(days, weights=counts) - origin) if has_gaps else None
    return DateColumn(name, style, origin, has_time, filled)


def _require_no_mistake(
    name: str, cells: Sequence[str], known: Counter[str], place_of: Callable[[int], str]
) -> None:
    numbers = {cell for cell in known if as_styled_number(cell, "plain") is not None}
    share = sum(known[cell] for cell in numbers) / known.total()
    if len(numbers) <= MANY_NUMBERS or share < MOSTLY:
        return
    for row, cell in enumerate(cells):
        if cell in known and cell not in numbers:
            raise DataError(
                f"{place_of(row)}, column {name}: a number expected as in the other rows, got {cell!r}; "
                "mend it, leave it empty, or drop the column"
            )


def _category_column(name: str, known: Counter[str], has_gaps: bool) -> Column | Dropped:
    lower = {cell.lower() for cell in known}
    if lower <= BOOLEANS:
        return CategoryColumn(name, tuple(sorted(lower)), has_gaps=has_gaps, folds_case=True)
    total = known.total()
    all_differ = len(known) == total >= ENOUGH_ROWS
    nearly_all_differ = len(known) > MOST_CATEGORIES and len(known) > total / 2
    if all_differ or nearly_all_differ:
        return Dropped(name, f"holds {len(known):,} different texts in {total:,} rows", is_text=True)
    # The most frequent first, and of those that are as frequent the first by name: the order of rows is none.
    ranked = sorted(known, key=lambda cell: (-known[cell], cell))
    values = tuple(sorted(ranked[:MOST_CATEGORIES]))
    return CategoryColumn(name, values, len(known) > MOST_CATEGORIES, has_gaps)
