"""The columns of a table, each with a rule for how the text of a cell becomes numbers."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from nescio.errors import DataError, InputError

LARGEST_NUMBER = float(np.finfo(np.float32).max)
# What people and programs write where there is no value, in small letters.
GAPS = frozenset({"", "?", "-", "na", "n/a", "#n/a", "nan", "nat", "null", "none"})
BOOLEANS = frozenset({"true", "false", "yes", "no"})

_GROUPS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")  # 1,234.5
_DECIMAL_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d*)?")  # 1234,5 and 1.234,5
_TIME = r"(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d+)?)?)? ?(Z|[+-]\d{2}:?\d{2})?"
_DATES = {
    "year-month-day": re.compile(r"(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})" + _TIME),
    "month/day/year": re.compile(r"(?P<month>\d{1,2})[-/](?P<day>\d{1,2})[-/](?P<year>\d{4})" + _TIME),
    "day/month/year": re.compile(r"(?P<day>\d{1,2})[-/.](?P<month>\d{1,2})[-/.](?P<year>\d{4})" + _TIME),
}
DATE_STYLES = tuple(_DATES)
NUMBER_STYLES = ("plain", "1,234.5", "1.234,5")
DAYS_OF_YEAR = 365.2425
_EPOCH = datetime(1970, 1, 1)
_SECONDS_OF_DAY = 86_400
HALF = 0.5  # an indicator above it says yes


def is_gap(cell: str) -> bool:
    """Whether there is no value."""
    return cell.lower() in GAPS


class PlainNumber(str):
    """The text of a cell that came as a number: written with a point, whatever the style of its column.

    Example:
        >>> NumberColumn("price", style="1.234,5").encode(PlainNumber(0.125))
        (0.125,)
    """

    __slots__ = ()


def as_number(text: str) -> float | None:
    """The number that a text is; None where it is none."""
    try:
        return float(text)
    except ValueError:
        return None


def as_styled_number(text: str, style: str) -> float | None:
    """The number that a text is in one of the NUMBER_STYLES; None where it is none."""
    if isinstance(text, PlainNumber):
        return as_number(text)
    if style == "1,234.5" and _GROUPS.fullmatch(text):
        return float(text.replace(",", ""))
    if style == "1.234,5":
        if not _DECIMAL_COMMA.fullmatch(text):
            return None
        return float(text.replace(".", "").replace(",", "."))
    return as_number(text)


def as_days(text: str, style: str) -> float | None:
    """Days since 1970 of a date in one of the DATE_STYLES, with the time of day; None where it is none."""
    match = _DATES[style].fullmatch(text)
    if match is None:
        return None
    hour, minute, second, zone = match.groups()[-4:]
    try:
        moment = datetime(
            int(match["year"]),
            int(match["month"]),
            int(match["day"]),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
        )
        if zone not in (None, "Z"):
            digits = zone[1:].replace(":", "")
            offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
            moment = moment - offset if zone[0] == "+" else moment + offset
    except (ValueError, OverflowError):
        return None
    return (moment - _EPOCH).total_seconds() / _SECONDS_OF_DAY


def _described(cell: str) -> str:
    """A cell that a column does not take, for messages: why a gap is none of its values."""
    return f"{cell!r}; training saw no gap here" if is_gap(cell) else repr(cell)


class Column(ABC):
    """A column of a table that is read by its name, and what its cells become.

    Attributes:
        kind: What it is called in a model file.
        name: Name of the column.
    """

    kind: ClassVar[str]
    name: str

    @property
    @abstractmethod
    def features(self) -> tuple[str, ...]:
        """The names of the numbers that a cell becomes."""

    @property
    @abstractmethod
    def measured(self) -> tuple[bool, ...]:
        """Which of them are measured, and so are scaled; the others are 0 or 1, or between -1 and 1."""

    @property
    @abstractmethod
    def takes_gaps(self) -> bool:
        """Whether a cell may be empty."""

    @abstractmethod
    def encode(self, cell: str) -> Sequence[float]:
        """A cell as numbers. Raises DataError, which says what was expected, where it can't be one."""

    @abstractmethod
    def decode(self, numbers: Sequence[float]) -> str:
        """The text of a cell, for people, back from the numbers that `encode` made of it."""

    def encode_all(self, cells: Sequence[str], place_of: Callable[[int], str]) -> np.ndarray:
        """All cells (N,) as numbers (N, features), float32. place_of: where a row is, for messages."""
        position: dict[str, int] = {}
        known: list[Sequence[float]] = []
        for cell in dict.fromkeys(cells):
            try:
                known.append(self.encode(cell))
            except DataError as error:
                raise DataError(f"{place_of(cells.index(cell))}, column {self.name}: {error}") from error
            position[cell] = len(position)
        codes = np.fromiter(map(position.__getitem__, cells), np.int64, len(cells))
        return np.array(known, np.float32).reshape(len(known), -1)[codes]

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for a model file."""
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload]


@dataclass(frozen=True)
class NumberColumn(Column):
    """Measured numbers.

    Args:
        name: Name of the column.
        offset: Taken from each number before it is rounded to float32, which knows seven digits only: of
            times in seconds it would know minutes.
        filled: What stands for a gap, with a one in a second feature; None where training saw no gap.
        style: How the numbers are written, one of NUMBER_STYLES.

    Example:
        >>> NumberColumn("age", filled=40.0).encode("NA")
        (40.0, 1.0)
    """

    kind: ClassVar[str] = "number"
    name: str
    offset: float = 0.0
    filled: float | None = None
    style: str = "plain"

    def __post_init__(self) -> None:
        if self.style not in NUMBER_STYLES:
            raise InputError(f"style must be one of {', '.join(NUMBER_STYLES)}, got {self.style!r}")

    @property
    def features(self) -> tuple[str, ...]:
        """The number, and whether it is missing where it may be."""
        return (self.name,) if self.filled is None else (self.name, f"{self.name} is missing")

    @property
    def measured(self) -> tuple[bool, ...]:
        """The number is."""
        return (True,) if self.filled is None else (True, False)

    @property
    def takes_gaps(self) -> bool:
        """Where training saw one."""
        return self.filled is not None

    def encode(self, cell: str) -> tuple[float, ...]:
        """Raises DataError where it is no number, or a gap that training never saw."""
        if self.filled is not None and is_gap(cell):
            return (self.filled, 1.0)
        number = as_styled_number(cell, self.style)
        if number is None or not abs(number) <= LARGEST_NUMBER:
            raise DataError(f"a finite number expected that float32 can hold, got {_described(cell)}")
        if self.filled is None:
            return (number - self.offset,)
        return (number - self.offset, 0.0)

    def decode(self, numbers: Sequence[float]) -> str:
        """Nothing for a gap; as many digits as float32 knows."""
        if self.filled is not None and numbers[1] > HALF:
            return ""
        if self.offset:
            return f"{numbers[0] + self.offset:.10g}"
        number = float(str(np.float32(numbers[0])))  # 0.1 and not 0.10000000149
        return str(number).removesuffix(".0")


@dataclass(frozen=True)
class CategoryColumn(Column):
    """One of some texts: a feature for each, which is one for it and else zero.

    Args:
        name: Name of the column.
        values: The texts that have a feature of their own.
        has_other: Whether there is a feature for all others. Without one, another text is zero everywhere.
        has_gaps: Whether there is a feature for gaps. Without one, training saw none, and a gap is refused.
        folds_case: Whether TRUE and true are the same.

    Example:
        >>> CategoryColumn("colour", ("blue", "red")).encode("red")
        (0.0, 1.0)
        >>> CategoryColumn("colour", ("blue", "red")).encode("green")
        (0.0, 0.0)
    """

    kind: ClassVar[str] = "category"
    name: str
    values: tuple[str, ...]
    has_other: bool = False
    has_gaps: bool = False
    folds_case: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(str(value) for value in self.values))
        if not self.values or len(set(self.values)) != len(self.values):
            raise InputError(f"values must be one or more different texts, got {self.values[:5]}")

    @property
    def features(self) -> tuple[str, ...]:
        """One a value, and one each for others and gaps where there are."""
        named = [f"{self.name} = {value}" for value in self.values]
        if self.has_other:
            named.append(f"{self.name} is another")
        if self.has_gaps:
            named.append(f"{self.name} is missing")
        return tuple(named)

    @property
    def measured(self) -> tuple[bool, ...]:
        """None is."""
        return (False,) * len(self.features)

    @property
    def takes_gaps(self) -> bool:
        """Where training saw one."""
        return self.has_gaps

    def encode(self, cell: str) -> tuple[float, ...]:
        """Raises DataError where it is a gap that training never saw; every other text is one."""
        encoded = [0.0] * self._num_features
        if self.folds_case:
            cell = cell.lower()
        if self.has_gaps and is_gap(cell):
            encoded[-1] = 1.0
        elif cell in self._positions:
            encoded[self._positions[cell]] = 1.0
        elif is_gap(cell):
            raise DataError(f"one of its values or another text expected, got {_described(cell)}")
        elif self.has_other:
            encoded[len(self.values)] = 1.0
        return tuple(encoded)

    def decode(self, numbers: Sequence[float]) -> str:
        """Nothing for a gap; a value that training did not know is not remembered."""
        for value, number in zip(self.values, numbers, strict=False):
            if number > HALF:
                return value
        if self.has_gaps and numbers[-1] > HALF:
            return ""
        return "(another)"

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {value: position for position, value in enumerate(self.values)}

    @cached_property
    def _num_features(self) -> int:
        return len(self.features)


@dataclass(frozen=True)
class DateColumn(Column):
    """Days, or moments: how long ago, the time of the year, the day of the week, and the time of the day.

    Args:
        name: Name of the column.
        style: How the dates are written, one of DATE_STYLES.
        origin: The days since 1970 that the first feature counts from.
        has_time: Whether the time of the day matters.
        filled: The first feature of a gap, with a one in a last feature; None where training saw no gap.

    Example:
        >>> DateColumn("day", origin=19723.0).encode("2024-01-02")[0]
        1.0
    """

    kind: ClassVar[str] = "date"
    name: str
    style: str = DATE_STYLES[0]
    origin: float = 0.0
    has_time: bool = False
    filled: float | None = None

    def __post_init__(self) -> None:
        if self.style not in DATE_STYLES:
            raise InputError(f"style must be one of {', '.join(DATE_STYLES)}, got {self.style!r}")

    @property
    def features(self) -> tuple[str, ...]:
        """Days, a point on the circle of the year, seven for the week, one on the circle of the day."""
        names = ["in days", "in the year (sine)", "in the year (cosine)"]
        names += ["on Monday", "on Tuesday", "on Wednesday", "on Thursday", "on Friday", "on Saturday"]
        names.append("on Sunday")
        if self.has_time:
            names += ["in the day (sine)", "in the day (cosine)"]
        if self.filled is not None:
            names.append("is missing")
        return tuple(f"{self.name} {name}" for name in names)

    @property
    def measured(self) -> tuple[bool, ...]:
        """The days are."""
        return (True,) + (False,) * (len(self.features) - 1)

    @property
    def takes_gaps(self) -> bool:
        """Where training saw one."""
        return self.filled is not None

    def encode(self, cell: str) -> list[float]:
        """Raises DataError where it is no date of the style, or a gap that training never saw."""
        if self.filled is not None and is_gap(cell):
            return [self.filled, *[0.0] * (len(self.features) - 2), 1.0]
        days = as_days(cell, self.style)
        if days is None:
            raise DataError(f"a date expected, {self.style}, got {_described(cell)}")
        week = [0.0] * 7
        week[(math.floor(days) + 3) % 7] = 1.0  # the first day of 1970 was a Thursday
        encoded = [days - self.origin, *_on_circle(days / DAYS_OF_YEAR), *week]
        if self.has_time:
            encoded += _on_circle(days)
        if self.filled is not None:
            encoded.append(0.0)
        return encoded

    def decode(self, numbers: Sequence[float]) -> str:
        """Nothing for a gap; else year, month and day, with the time where it matters."""
        if self.filled is not None and numbers[-1] > HALF:
            return ""
        try:
            moment = _EPOCH + timedelta(days=numbers[0] + self.origin)
        except OverflowError:
            return "(no date)"
        return moment.strftime("%Y-%m-%d %H:%M" if self.has_time else "%Y-%m-%d")


def _on_circle(turns: float) -> list[float]:
    angle = 2 * math.pi * (turns % 1)
    return [math.sin(angle), math.cos(angle)]


_KINDS: dict[str, type[Column]] = {
    column.kind: column for column in (NumberColumn, CategoryColumn, DateColumn)
}


def column_from_dict(data: Mapping[str, Any]) -> Column:
    """Back from what `to_dict` gave."""
    fields = dict(data)
    kind = fields.pop("kind")
    if kind not in _KINDS:
        raise InputError(f"a column must be one of {', '.join(_KINDS)}, got {kind!r}")
    return _KINDS[kind](**fields)
