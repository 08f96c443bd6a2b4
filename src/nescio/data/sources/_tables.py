"""TableFile: the rows of a .csv file."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import torch

from nescio.data._columns import as_number
from nescio.data._labels import counted, is_no_label
from nescio.data._schema import TableSchema, label_column
from nescio.data._values import Row
from nescio.data.dataset import Dataset, Table
from nescio.data.preprocess import Preprocess, RowPreprocess
from nescio.data.sources._base import Input, Labels, Place, Source, as_data, printable
from nescio.errors import DataError, InputError

SEPARATORS = ("\t", ";")  # a first line with one of these is not separated by commas


class _Line(NamedTuple):
    number: int
    cells: tuple[str, ...]


class TableFile(Source):
    """A .csv or .tsv file in UTF-8, with a header or without, separated by commas, semicolons or tabs.

    The first line is a header if none of its cells is a number. Blank lines are passed over. The labels are
    in the column called label, class, target or y, else in the last; labels that are numbers are told apart
    by their value: 1 and 1.0 are one class.

    Args:
        place: Where the file is.
        header: The names of its columns; None where it has none.
        lines: Its rows.
        label: The column that holds the labels, by its name or, without a header, its number from 1 on.
    """

    kind: ClassVar[str] = "tables"
    about: ClassVar[str] = ".csv files without labels"
    options: ClassVar[tuple[str, ...]] = ("label",)

    def __init__(
        self, place: Place, header: tuple[str, ...] | None, lines: list[_Line], label: str | None = None
    ) -> None:
        self.name = place.path.stem
        self._place = place
        self._header = header
        self._lines = lines
        self._label = label
        if label is not None:
            self._label_column()  # an option that does not fit is refused at once

    @classmethod
    def recognises(cls, place: Place) -> bool:
        """Files that end in .csv or .tsv."""
        return place.is_file() and place.suffix in (".csv", ".tsv")

    @classmethod
    def open(cls, place: Place, *, label: str | None = None, **_: Any) -> TableFile:
        """Read all of it."""
        lines = _lines_of(place)
        if not lines:
            raise DataError(f"{place.short_name} is empty")
        header = None
        if all(as_number(cell) is None for cell in lines[0].cells):
            header = lines[0].cells
            lines = lines[1:]
        if not lines:
            raise DataError(f"{place.short_name} has a header and no rows")
        return cls(place, header, lines, label)

    def __len__(self) -> int:
        return len(self._lines)

    def read(self, indices: Sequence[int]) -> list[Input]:
        """The rows at these positions, named file:1, file:2 and so on; a header is not counted."""
        found = []
        for index in indices:
            line = self._lines[index]
            row = Row(line.cells, self._header, self._place_of(line))
            found.append(Input(f"{printable(self._place.name)}:{index + 1}", row))
        return found

    def fingerprint(self) -> str:
        """The digest of the file."""
        return self._place.digest()

    @property
    def labels(self) -> Labels | None:
        """Of the column of labels; every row must have one, and as many cells as the others."""
        column = self._label_column()
        labels: list[object] = []
        width = len(self._header or self._lines[0].cells)
        for line in self._lines:
            if len(line.cells) != width:
                raise DataError(f"{self._place_of(line)}: {width} columns expected, got {len(line.cells)}")
            if is_no_label(line.cells[column]):
                where = f"{self._place_of(line)}, column {self.label_name}"
                raise DataError(f"{where}: a label expected, got {line.cells[column]!r}")
            labels.append(line.cells[column])
        return Labels(*counted(self._place.short_name, labels))

    def labelled(self, preprocess: Preprocess | None = None) -> Dataset | Table:
        """All rows without the labels' column, and the labels."""
        labels = self.labels
        assert labels is not None
        column = self._label_column()
        names = None if self._header is None else _without(self._header, column)
        schema = None
        if preprocess is None:
            position = None
            # Last without being asked for is a guess: the header of another file may know better.
            if self._label is not None or column < len(self._lines[0].cells) - 1:
                position = column
            width = len(self._lines[0].cells) - 1
            if width == 0:
                raise DataError(f"{self._place.short_name} needs a column of numbers beside the labels")
            # Columns of the same name can't be told apart by it.
            columns = names
            if names is not None and len(set(names)) < len(names):
                columns = None
            schema = TableSchema.of_numbers(columns, width, position)
            preprocess = RowPreprocess((width,), (0.0,) * width, (1.0,) * width, schema)
        else:
            self._require_width(preprocess)
        rows = []
        for line in self._lines:
            row = Row(_without(line.cells, column), names, self._place_of(line))
            rows.append(preprocess.prepare(row))
        return as_data(self.name, torch.stack(rows), labels, schema)

    @property
    def label_name(self) -> str:
        """The column that holds the labels, for messages: by its name or its number from 1 on."""
        column = self._label_column()
        return str(column + 1) if self._header is None else self._header[column]

    def _require_width(self, preprocess: Preprocess) -> None:
        """Refuse a surplus column: without names it would be taken for labels once more, and dropped."""
        if not isinstance(preprocess, RowPreprocess) or preprocess.schema is None:
            return
        schema = preprocess.schema
        if self._header is not None and schema.has_names:
            return
        width = len(self._lines[0].cells) - 1
        if width == schema.width + 1:
            raise DataError(
                f"{self._place.short_name}: {schema.width} columns beside the labels expected, got {width}; "
                f"the labels were taken from column {self.label_name} (--label names another): remove the "
                "surplus one"
            )

    def _place_of(self, line: _Line) -> str:
        return f"{self._place.short_name}, line {line.number}"

    def _label_column(self) -> int:
        width = len(self._header or self._lines[0].cells)
        if self._label is None:
            return label_column(self._header, width)
        name = self._place.short_name
        if self._header is None:
            if self._label.isdecimal() and 1 <= int(self._label) <= width:
                return int(self._label) - 1
            raise InputError(f"{name} has no header: label must be 1 to {width}, got {self._label!r}")
        if self._label not in self._header:
            listed = ", ".join(self._header[:12])
            raise InputError(f"{name} has no column {self._label!r}; its columns: {listed}")
        return self._header.index(self._label)


def _without(cells: tuple[str, ...], column: int) -> tuple[str, ...]:
    return cells[:column] + cells[column + 1 :]


def _lines_of(place: Place) -> list[_Line]:
    """Each line that is not blank, with its number; cells without the spaces around them."""
    try:
        text = place.read_bytes().decode("utf-8-sig")
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=_separator(text), strict=False)
        lines = []
        for row in reader:
            cells = tuple(cell.strip() for cell in row)
            if any(cells):
                lines.append(_Line(reader.line_num, cells))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{place.short_name} can't be read: {error}") from error
    return lines


def _separator(text: str) -> str:
    """By the first line that is not blank: a tab or a semicolon outside quotes, else a comma."""
    for line in text.splitlines():
        if line.strip():
            outside = "".join(line.split('"')[::2])
            for separator in SEPARATORS:
                if separator in outside:
                    return separator
            return ","
    return ","
