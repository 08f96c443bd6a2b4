"""From the files of tables to their cells: CSV, TSV, JSON lines and Parquet, each cell as text.

A cell is a text whatever the file was, so that the same table is the same in every format: numbers as Python
writes them, true and false, dates as year-month-day, and nothing where there is a gap.
"""

from __future__ import annotations

import csv
import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from nescio.data._columns import NUMBER_STYLES, PlainNumber, as_styled_number
from nescio.data._encodings import decode
from nescio.data._schema import LABEL_COLUMNS
from nescio.data._values import NoText, Row
from nescio.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa

SEPARATORS = ("\t", ";", ",")  # the first of these in the first line separates cells
LARGEST_CELL = 1 << 27  # characters

# What str.strip takes off beside the usual, and quotes: there, pyarrow and Python may see other cells.
_SPECIAL = (b'"', *(bytes([code]) for code in (0x0B, 0x0C, 0x1C, 0x1D, 0x1E, 0x1F)))
_OTHER_SPACES = re.compile(
    rb"\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80"
)
_BLANK_LINE = re.compile(rb"\n[,;\t ]*\r?\n")


def cell_text(value: object) -> str:
    """A value of JSON, Parquet or a frame as the text of a cell; a number as a `PlainNumber`.

    Raises:
        DataError: If it is a list or something else that no cell holds.

    Example:
        >>> [cell_text(value) for value in (None, True, 3, 2.5, " red ", date(2024, 1, 2))]
        ['', 'true', '3', '2.5', 'red', '2024-01-02']
    """
    if hasattr(value, "item") and not isinstance(value, str):
        value = value.item()  # numpy's numbers
    if value is None or _is_gap(value):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        return PlainNumber(value)
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, date):
        return value.isoformat()
    raise DataError(f"a number, a text, true or false expected, got {type(value).__name__}")


def _cell_or_reason(value: object) -> str:
    """As `cell_text`; why there is none costs nothing until somebody reads the cell."""
    try:
        return cell_text(value)
    except DataError as error:
        return NoText(error)


def _is_gap(value: object) -> bool:
    """Whether it is not itself, as NaN and NaT, or says not even that, as pandas' NA."""
    try:
        return bool(value != value)
    except TypeError:
        return True


class TableContent(ABC):
    """The cells of a table, by row and by column.

    Attributes:
        header: The names of its columns; None where it has none.
    """

    header: tuple[str, ...] | None

    @abstractmethod
    def __len__(self) -> int:
        """The number of rows, without the header."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of columns."""

    @abstractmethod
    def place_of(self, index: int) -> str:
        """Where a row is, for messages."""

    @abstractmethod
    def rows(self, indices: Sequence[int]) -> list[Row | DataError]:
        """The rows at these positions; an error in the place of one that can't be read."""

    @abstractmethod
    def column(self, position: int) -> list[str]:
        """All cells of a column.

        Raises:
            DataError: If a row has more or fewer cells than the others, or a cell holds no text.
        """

    def _readable(self, position: int, cells: list[str]) -> list[str]:
        if NoText not in set(map(type, cells)):
            return cells
        for index, cell in enumerate(cells):
            if isinstance(cell, NoText):
                called = str(position + 1) if self.header is None else self.header[position]
                raise DataError(f"{self.place_of(index)}, column {called}: {cell}")
        return cells


class _Line(NamedTuple):
    number: int
    cells: tuple[str, ...]
    error: DataError | None = None


class LinesTable(TableContent):
    """A table of lines, some of which may not fit."""

    def __init__(self, name: str, header: tuple[str, ...] | None, lines: list[_Line]) -> None:
        self.header = header
        self._name = name
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def width(self) -> int:
        return len(self.header or self._lines[0].cells)

    def place_of(self, index: int) -> str:
        return f"{self._name}, line {self._lines[index].number}"

    def rows(self, indices: Sequence[int]) -> list[Row | DataError]:
        found: list[Row | DataError] = []
        for index in indices:
            line = self._lines[index]
            found.append(line.error or Row(line.cells, self.header, self.place_of(index)))
        return found

    def column(self, position: int) -> list[str]:
        self._check_lines()
        return self._readable(position, [line.cells[position] for line in self._lines])

    def _check_lines(self) -> None:
        for index, line in enumerate(self._lines):
            if line.error is not None:
                raise line.error
            if len(line.cells) != self.width:
                raise DataError(
                    f"{self.place_of(index)}: {self.width} columns expected, got {len(line.cells)}"
                )


class ArrowTable(TableContent):
    """A table of pyarrow, a fraction of the size and read many times as fast.

    first_line: of the first row in a file of lines; None for a file without lines.
    """

    def __init__(
        self, name: str, table: pa.Table, header: tuple[str, ...] | None, first_line: int | None = None
    ) -> None:
        self.header = header
        self._name = name
        self._table = table
        self._first_line = first_line

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @property
    def width(self) -> int:
        return int(self._table.num_columns)

    def place_of(self, index: int) -> str:
        if self._first_line is None:
            return f"{self._name}, row {index + 1}"
        return f"{self._name}, line {index + self._first_line}"

    def rows(self, indices: Sequence[int]) -> list[Row | DataError]:
        taken = self._table.take(list(indices))
        columns = [taken.column(position).to_pylist() for position in range(self.width)]
        found: list[Row | DataError] = []
        for place, index in enumerate(indices):
            cells = tuple(_cell_or_reason(column[place]) for column in columns)
            found.append(Row(cells, self.header, self.place_of(index)))
        return found

    def column(self, position: int) -> list[str]:
        values = self._table.column(position).to_pylist()
        if self._first_line is not None:
            return [value.strip() for value in values]  # of a file of lines they are texts already
        return self._readable(position, [_cell_or_reason(value) for value in values])


def read_table(content: bytes, name: str, suffix: str) -> TableContent:
    """The table in a file.

    Args:
        content: All of the file.
        name: Name of the file, for messages.
        suffix: One of SUFFIXES.

    Raises:
        DataError: If it can't be read, or has no rows.
        MissingExtraError: If it is a Parquet file and pyarrow is not installed.
    """
    table = _READERS[suffix](content, name)
    if len(table) == 0:
        raise DataError(f"{name} has a header and no rows")
    return table


def _read_csv(content: bytes, name: str, usual_separator: str = ",") -> TableContent:
    """Separated by commas, semicolons or tabs; a first line without a number is a header.

    Or one whose numbers count its columns, as pandas writes it for a frame whose columns have no names.
    """
    text = decode(content, name)
    separator = _separator(text, usual_separator)
    in_utf8 = content if content.isascii() else text.encode()
    table = _read_plain_csv(in_utf8, name, separator)
    if table is not None:
        return table
    lines = _lines_of(text, name, separator)
    if not lines:
        raise DataError(f"{name} is empty")
    first, *others = lines

    def below(position: int) -> list[str]:
        return [line.cells[position] for line in others if len(line.cells) == len(first.cells)]

    if _is_header(first.cells, below):
        return LinesTable(name, first.cells, others)
    return LinesTable(name, None, lines)


def _read_tsv(content: bytes, name: str) -> TableContent:
    """As a CSV, but one column alone may hold commas."""
    return _read_csv(content, name, "\t")


def _is_header(cells: Sequence[str], below: Callable[[int], Sequence[str]]) -> bool:
    """Whether a first line names the columns; below: the other cells of a column."""
    numbers = [cell for cell in cells if _is_number(cell)]
    if not numbers:
        return True
    counts = [[str(start + place) for place in range(len(numbers))] for start in (0, 1)]
    if len(numbers) < 2 or numbers not in counts or not below(0):
        return False
    signs = []
    for position, cell in enumerate(cells):
        column = below(position)
        if _is_number(cell):
            signs.append(len(column) > 2 and not any(map(_is_number, column)))  # a number above words
        elif cell in column:
            return False  # a row as others are
        else:
            has_classes = len(numbers) > 2 and len(set(column)) <= len(column) / 2
            is_above_index = cell == "" and position == 0
            signs.append(has_classes or is_above_index or cell.lower() in LABEL_COLUMNS)
    return any(signs)


def _is_number(cell: str) -> bool:
    return any(as_styled_number(cell, style) is not None for style in NUMBER_STYLES)


def _lines_of(text: str, name: str, separator: str) -> list[_Line]:
    """Each record that is not blank, with the number of its last line; cells without the spaces around them.

    A row of gaps is a row: without it, those behind it would be counted wrongly. Only what spreadsheets write
    around a table, rows of separators at its beginning and its end, is left out.
    """
    csv.field_size_limit(LARGEST_CELL)  # a text in a cell may be long
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=False)
    lines = []
    begin = end = 0  # the lines before a record, and with it
    try:
        for row in reader:
            begin, end = end, reader.line_num
            is_blank = not row or (len(row) == 1 and row[0].isspace())
            if not is_blank:
                cells = tuple(cell.strip() for cell in row)
                lines.append(_Line(reader.line_num, cells))
    except csv.Error as error:
        raise DataError(f"{name} can't be read: {error}") from error
    if _ends_in_quotes(islice(io.StringIO(text, newline=""), begin, None), separator):
        raise DataError(
            f"{name}, line {begin + 1}: a quotation mark opens a cell here and none closes it, which would "
            "make one cell of the rest of the file; close it, or write the cell in quotation marks with "
            "those in it doubled"
        )
    while lines and _is_of_separators(lines[-1]):
        lines.pop()
    while lines and _is_of_separators(lines[0]):
        lines.pop(0)
    return lines


def _ends_in_quotes(record: Iterable[str], separator: str) -> bool:
    """Whether the last cell of a record begins with a quotation mark and none closes it.

    record: its lines.
    """
    try:
        list(csv.reader(record, delimiter=separator, strict=True))
    except csv.Error as error:
        return "unexpected end of data" in str(error)
    return False


def _is_of_separators(line: _Line) -> bool:
    return len(line.cells) > 1 and not any(line.cells)


def _read_plain_csv(content: bytes, name: str, separator: str) -> TableContent | None:
    """By pyarrow, where that is installed and the file is so plain that every reader sees the same in it.

    content: in UTF-8, without a byte order mark.
    """
    try:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv
    except ImportError:
        return None
    content = content.rstrip(b"\r\n")
    if not content or not _is_plain(content):
        return None
    first = content.partition(b"\n")[0].rstrip(b"\r").decode()
    cells = tuple(cell.strip() for cell in first.split(separator))
    names = [str(position) for position in range(len(cells))]
    try:
        table = arrow_csv.read_csv(
            _arrow_reader(content),
            arrow_csv.ReadOptions(column_names=names),
            arrow_csv.ParseOptions(delimiter=separator, quote_char=False, ignore_empty_lines=False),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowException:
        return None  # rows of different lengths
    rows = ArrowTable(name, table.slice(1), cells, first_line=2)
    return rows if _is_header(cells, rows.column) else ArrowTable(name, table, None, first_line=1)


def _arrow_reader(content: bytes) -> pa.BufferReader:
    """A file of pyarrow with a copy of this content in memory of its own.

    Its threads let go of a file later than they give the table. Python's bytes can be let go of only by who
    holds the interpreter's lock, and a thread that asks for that while the process ends aborts the process.
    """
    import pyarrow as pa

    buffer = pa.allocate_buffer(len(content))
    memoryview(buffer).cast("B")[:] = content
    return pa.BufferReader(buffer)


def _is_plain(content: bytes) -> bool:
    """Whether every reader sees the same cells and lines."""
    if any(special in content for special in _SPECIAL):
        return False
    if content.count(b"\r") != content.count(b"\r\n"):
        return False
    if not content.isascii() and _OTHER_SPACES.search(content):
        return False
    return _BLANK_LINE.search(b"\n" + content + b"\n") is None


def _separator(text: str, usual: str) -> str:
    """By the first line that is not blank: a tab, a semicolon or a comma outside quotes, else the usual."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        if end < 0:
            end = len(text)
        line = text[start:end]
        start = end + 1
        if line.strip():
            outside = "".join(line.split('"')[::2])
            for separator in SEPARATORS:
                if separator in outside:
                    return separator
            return usual
    return usual


def _read_json_lines(content: bytes, name: str) -> TableContent:
    """An object a line. The columns are the keys of all of them; one without a key has a gap there."""
    objects: list[tuple[int, dict[str, str] | DataError]] = []
    header: dict[str, None] = {}
    for number, line in enumerate(io.StringIO(decode(content, name)), start=1):
        if not line.strip():
            continue
        try:
            cells = cells_of_object(json.loads(line))
        except (DataError, ValueError, RecursionError) as error:
            objects.append((number, DataError(f"{name}, line {number}: {error}")))
        else:
            header.update(dict.fromkeys(cells))
            objects.append((number, cells))
    if not objects:
        raise DataError(f"{name} is empty")
    if not header:
        raise DataError(f"{name} must hold an object with values a line; {objects[0][1]}")
    lines = []
    for number, found in objects:
        if isinstance(found, DataError):
            lines.append(_Line(number, (), found))
        else:
            lines.append(_Line(number, tuple(found.get(key, "") for key in header)))
    return LinesTable(name, tuple(header), lines)


def cells_of_object(content: Any) -> dict[str, str]:
    """A row that came as a JSON object, by the names of its columns.

    Raises:
        DataError: If it is something else.
    """
    if not isinstance(content, dict):
        raise DataError(f"an object expected, with the names of columns, got {type(content).__name__}")
    return {name.strip(): _cell_or_reason(value) for name, value in content.items()}


def _read_parquet(content: bytes, name: str) -> TableContent:
    with _explaining_parquet(name):
        from pyarrow import parquet

        table = parquet.read_table(_arrow_reader(content))
    # The index of a frame is kept as a column of its own; it says where a row was, not what it is.
    indices = [column for column in table.column_names if re.fullmatch(r"__index_level_\d+__", column)]
    table = table.drop_columns(indices)
    if table.num_columns == 0:
        raise DataError(f"{name} has no columns")
    return ArrowTable(name, table, tuple(column.strip() for column in table.column_names))


def parquet_size(content: bytes, name: str) -> tuple[int, int, int]:
    """Rows, columns and bytes of a Parquet file once it is unpacked, as it says itself.

    Raises:
        DataError: If it can't be read.
        MissingExtraError: If pyarrow is not installed.
    """
    with _explaining_parquet(name):
        from pyarrow import parquet

        notes = parquet.ParquetFile(_arrow_reader(content)).metadata
    num_bytes = sum(notes.row_group(group).total_byte_size for group in range(notes.num_row_groups))
    return notes.num_rows, notes.num_columns, num_bytes


@contextmanager
def _explaining_parquet(name: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise MissingExtraError("tables", "pyarrow") from error
    except (OSError, ValueError, NotImplementedError, KeyError, MemoryError) as error:
        # The errors of pyarrow are among these.
        reason = " ".join(str(error).split())
        raise DataError(f"{name} is not a Parquet file that can be read: {reason}") from error


_READERS: dict[str, Callable[[bytes, str], TableContent]] = {
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".parquet": _read_parquet,
}
SUFFIXES = tuple(_READERS)
