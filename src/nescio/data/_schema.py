"""TableSchema: how a row of a table becomes numbers. It is stored in the model file."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from nescio._checks import listed, require_whole
from nescio.data._columns import Column, NumberColumn, column_from_dict
from nescio.data._values import Row
from nescio.errors import DataError, InputError, NescioWarning

LABEL_COLUMNS = ("label", "class", "target", "y")


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table that a model reads, and what their cells become.

    A row with a header is read by the names of its columns, in whatever order they are; a row without one by
    position.

    Args:
        columns: What is read, in the order of the features.
        has_names: Whether the columns have names; those of a table without a header are called by their
            numbers.
        positions: Where each column is among those of the file, the label's not counted; None for all of
            them in order.
        num_columns: How many columns the file had, the label's not counted; None for those that are read.
        ignored: The names of columns that the file had and that are not read.
        label: The name of the labels' column; None where it had none, or is not known.
        label_position: Where the labels were among all columns, from 0 on; a row by position that has a cell
            too many has its label there. None where the usual place is meant.

    Raises:
        InputError: If these do not fit together.

    Example:
        >>> schema = TableSchema.of_numbers(("length", "width"))
        >>> schema.encode(Row(("2.5", "4"), ("width", "length"), "new.csv, line 2"))
        tensor([4.0000, 2.5000])
    """

    columns: tuple[Column, ...]
    has_names: bool = True
    positions: tuple[int, ...] | None = None
    num_columns: int | None = None
    ignored: tuple[str, ...] = ()
    label: str | None = None
    label_position: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "ignored", tuple(self.ignored))
        positions = range(len(self.columns)) if self.positions is None else self.positions
        object.__setattr__(self, "positions", tuple(int(position) for position in positions))
        if self.num_columns is None:
            object.__setattr__(self, "num_columns", len(self.columns))
        names = [column.name for column in self.columns]
        if not names or len(set(names)) != len(names):
            raise InputError(f"columns must be one or more with different names, got {listed(names)}")
        require_whole("num_columns", self.num_columns, least=len(names))
        if len(self.places) != len(names) or not set(self.places) <= set(range(self.width)):
            raise InputError(f"positions must be one of {self.width} for each column, got {self.positions}")
        if self.label_position is not None:
            require_whole("label_position", self.label_position, least=0, most=self.width)

    @classmethod
    def of_numbers(
        cls, names: Sequence[str] | None = None, count: int | None = None, label_position: int | None = None
    ) -> TableSchema:
        """Of columns of plain numbers without gaps.

        Args:
            names: Names of the columns; None where they have none.
            count: How many there are, where they have no names.
            label_position: Where the labels were among the columns.

        Example:
            >>> TableSchema.of_numbers(count=3).num_features
            3
        """
        called = names
        if called is None:
            called = [str(number + 1) for number in range(count or 0)]
        columns = tuple(NumberColumn(str(name)) for name in called)
        return cls(columns, has_names=names is not None, label_position=label_position)

    @property
    def places(self) -> tuple[int, ...]:
        """Where each column is among those of the file, the label's not counted."""
        assert self.positions is not None
        return self.positions

    @property
    def width(self) -> int:
        """How many columns the file had, the label's not counted."""
        assert self.num_columns is not None
        return self.num_columns

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the columns that are read."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """The names of the F numbers that a row becomes."""
        found: list[str] = []
        for column in self.columns:
            found += column.features
        return tuple(found)

    @property
    def num_features(self) -> int:
        """F."""
        return len(self.features)

    @cached_property
    def measured(self) -> tuple[bool, ...]:
        """Which of the F numbers are measured, and so are scaled."""
        found: list[bool] = []
        for column in self.columns:
            found += column.measured
        return tuple(found)

    def encode(self, row: Row) -> Tensor:
        """A row of a table as numbers.

        Args:
            row: Row with or without the label's cell and, where it has a header, further columns.

        Returns:
            float32 (F,).

        Raises:
            DataError: If a column is missing, or a cell is not what its column holds; the message says where.
        """
        count = len(row.cells)
        if row.header is not None and count != len(row.header):
            raise DataError(f"{row.place}: {len(row.header)} columns expected, got {count}")
        numbers: list[float] = []
        for column, place in zip(self.columns, self._places_in(row.header, count, row.place), strict=True):
            cell = row.cell(place)
            try:
                numbers += column.encode(cell)
            except DataError as error:
                called = str(place + 1) if row.header is None else row.header[place]
                raise DataError(f"{row.place}, column {called}: {error}") from error
        return torch.tensor(numbers, dtype=torch.float32)

    def decode(self, numbers: Tensor) -> tuple[str, ...]:
        """A row of numbers (F,) as the texts of its cells, one for each of `names`, for people to read.

        Example:
            >>> TableSchema.of_numbers(("length", "width")).decode(torch.tensor([2.5, 4.0]))
            ('2.5', '4')
        """
        values = numbers.tolist()
        cells = []
        start = 0
        for column in self.columns:
            end = start + len(column.features)
            cells.append(column.decode(values[start:end]))
            start = end
        return tuple(cells)

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for a model file."""
        return {
            "columns": [column.to_dict() for column in self.columns],
            "has_names": self.has_names,
            "positions": self.positions,
            "num_columns": self.num_columns,
            "ignored": self.ignored,
            "label": self.label,
            "label_position": self.label_position,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TableSchema:
        """Back from what `to_dict` gave.

        Raises:
            InputError: If it does not fit together.
        """
        fields = dict(data)
        fields["columns"] = tuple(column_from_dict(column) for column in fields["columns"])
        return cls(**fields)

    def _places_in(self, header: tuple[str, ...] | None, count: int, place: str) -> tuple[int, ...]:
        """The positions of the cells that are read: by name where both sides have names.

        Columns without names may be called by their numbers.
        """
        if header is not None and (self.has_names or set(self.names) <= set(header)):
            if header not in self._places_by_name:
                self._places_by_name[header] = self._found_in(header, place)
            return self._places_by_name[header]
        everything = list(range(count))
        if count == self.width + 1:
            label = self.label_position
            everything.remove(label_column(header, count) if label is None else label)
        if len(everything) != self.width:
            raise DataError(f"{place}: {self.width} columns expected, got {count} columns")
        return tuple(everything[position] for position in self.places)

    @cached_property
    def _places_by_name(self) -> dict[tuple[str, ...], tuple[int, ...]]:
        """Of the headers that have come: a table has one for all of its rows."""
        return {}

    def _found_in(self, header: tuple[str, ...], place: str) -> tuple[int, ...]:
        """Where the columns are in a header; what is new in it is said."""
        places = {name: position for position, name in enumerate(header)}
        missing = [name for name in self.names if name not in places]
        if missing:
            raise DataError(f"{place}: the model needs the columns {listed(missing)}")
        known = {*self.names, *self.ignored, self.label}
        unknown = [name for name in header if name not in known and name.lower() not in LABEL_COLUMNS]
        if unknown and self.label is not None:
            warnings.warn(
                f"columns that the model was not trained with are ignored: {listed(unknown)}",
                NescioWarning,
                stacklevel=2,
            )
        return tuple(places[name] for name in self.names)


def label_column(header: tuple[str, ...] | None, count: int) -> int:
    """The position of the labels among so many columns: by the usual names, else the last."""
    names = [name.lower() for name in header or ()]
    # In this order: beside x, a column y holds numbers where another holds labels.
    for usual in LABEL_COLUMNS:
        if usual in names:
            return names.index(usual)
    return count - 1
