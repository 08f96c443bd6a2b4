"""From the cells of a training table to its schema and its numbers, and from a frame to cells."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nescio._checks import listed
from nescio.data._column_kinds import Dropped, infer_column
from nescio.data._columns import Column
from nescio.data._schema import TableSchema
from nescio.data._table_files import TableContent, cell_text
from nescio.data._values import Row
from nescio.errors import DataError, InputError, NescioWarning


class FittedColumns(NamedTuple):
    """What the columns of a table hold, and what they became.

    Args:
        columns: Those that are learned from.
        places: Position of each among the columns that were looked at.
        ignored: Names of the others.
        features: Numbers of all rows, float32 (N, F).
    """

    columns: tuple[Column, ...]
    places: tuple[int, ...]
    ignored: tuple[str, ...]
    features: Tensor


def fit_columns(
    table: str,
    content: TableContent,
    positions: Sequence[int],
    has_names: bool,
    skipped: Collection[int | None] = (),
) -> FittedColumns:
    """Find out what columns hold, and encode them; what teaches nothing is dropped with a warning.

    Args:
        table: Name of the table, for messages.
        content: All of its cells.
        positions: Columns to look at: all but the label's.
        has_names: Whether the columns are called by the header, else by their numbers.
        skipped: Positions of columns not to learn from.

    Raises:
        DataError: If nothing is left to learn from, or a cell does not fit its column.
    """
    columns: list[Column] = []
    places: list[int] = []
    ignored: list[str] = []
    dropped: list[Dropped] = []
    encoded: list[np.ndarray] = []
    for place, position in enumerate(positions):
        name = str(position + 1)
        if has_names and content.header is not None:
            name = content.header[position]
        if position in skipped:
            ignored.append(name)
            continue
        cells = content.column(position)
        column = infer_column(name, cells, content.place_of, is_first=position == 0)
        if isinstance(column, Dropped):
            ignored.append(name)
            dropped.append(column)
            continue
        columns.append(column)
        places.append(place)
        encoded.append(column.encode_all(cells, content.place_of))
    if not columns:
        raise DataError(_nothing_left(table, dropped))
    for column in dropped:
        called = column.name or "without a name"
        message = f"{table}: column {called} is dropped: it {column.reason}"
        if column.is_text:
            message += f"; to learn from its texts instead, say text={column.name!r} (--text)"
        warnings.warn(message, NescioWarning, stacklevel=4)
    features = torch.from_numpy(np.concatenate(encoded, axis=1))
    return FittedColumns(tuple(columns), tuple(places), tuple(ignored), features)


def _nothing_left(table: str, dropped: Sequence[Dropped]) -> str:
    message = f"{table} needs a column to learn from beside the labels"
    if dropped:
        first = dropped[0]
        message += f": {first.name} {first.reason}"
        if first.is_text:
            message += f"; to learn from it, say text={first.name!r} (--text)"
    return message


class FrameContent(TableContent):
    """The cells of a frame of pandas, or of another library with named columns.

    Args:
        frame: A frame that has `columns`, and `frame[name].to_list()` for each of them.
    """

    def __init__(self, frame: Any) -> None:
        names = [str(name).strip() for name in frame.columns]
        if len(set(names)) != len(names):
            raise InputError(f"X must have columns of different names, got {names[:12]}")
        self.header: tuple[str, ...] = tuple(names)
        self._columns = [frame[name].to_list() for name in frame.columns]

    def __len__(self) -> int:
        return len(self._columns[0])

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.header)

    def place_of(self, index: int) -> str:
        """By its number from 1 on."""
        return f"X, row {index + 1}"

    def rows(self, indices: Sequence[int]) -> list[Row | DataError]:
        """The rows at these positions."""
        columns = [self.column(position) for position in range(self.width)]
        found: list[Row | DataError] = []
        for index in indices:
            cells = tuple(column[index] for column in columns)
            found.append(Row(cells, self.header, self.place_of(index)))
        return found

    def column(self, position: int) -> list[str]:
        """All cells of a column, as texts."""
        try:
            return [cell_text(value) for value in self._columns[position]]
        except DataError as error:
            raise DataError(f"X, column {self.header[position]}: {error}") from error


def is_mixed_frame(values: Any) -> bool:
    """Whether it is a frame with more than numbers in it: texts, dates, gaps."""
    if not (hasattr(values, "columns") and hasattr(values, "dtypes")):
        return False
    for name in values.columns:
        column = np.asarray(values[name])
        if column.ndim != 1 or column.dtype.kind not in "biuf":
            return True
        if column.dtype.kind == "f" and np.isnan(column).any():
            return True
    return False


def fit_frame(frame: Any) -> tuple[TableSchema, Tensor]:
    """The schema of a frame to learn from, and its numbers (N, F)."""
    content = FrameContent(frame)
    fitted = fit_columns("X", content, range(content.width), has_names=True)
    schema = TableSchema(
        fitted.columns, positions=fitted.places, num_columns=content.width, ignored=fitted.ignored
    )
    return schema, fitted.features


def encode_frame(frame: Any, schema: TableSchema) -> Tensor:
    """The numbers (N, F) of a frame, by what is known of its columns.

    Raises:
        DataError: If a column is missing, or a cell does not fit.
    """
    content = FrameContent(frame)
    missing = [name for name in schema.names if name not in content.header]
    if missing:
        raise DataError(f"X: the model needs the columns {listed(missing)}")
    encoded = []
    for column in schema.columns:
        cells = content.column(content.header.index(column.name))
        encoded.append(column.encode_all(cells, content.place_of))
    return torch.from_numpy(np.concatenate(encoded, axis=1))
