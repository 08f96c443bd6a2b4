"""TableFile: the rows of a table, or the texts in one of its columns."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from copy import copy
from typing import Any, ClassVar

import torch
from torch import Tensor

from nescio.data._fitting import fit_columns
from nescio.data._labels import counted, is_no_label, require_two_classes
from nescio.data._schema import LABEL_COLUMNS, TableSchema, label_column
from nescio.data._table_files import SUFFIXES, TableContent, read_table
from nescio.data._values import Row, Text
from nescio.data.dataset import Table, Texts
from nescio.data.preprocess import Preprocess, RowPreprocess, TextPreprocess
from nescio.data.sources._base import Input, Labels, Place, Source, printable
from nescio.data.splits import group_codes, part_of
from nescio.errors import DataError, InputError, NescioWarning

LISTED = 30  # columns that a message lists
MANY_CLASSES = 100  # labels that differ in more than half of the rows, and more often than this, are none


class TableFile(Source):
    """A table: .csv or .tsv, .jsonl with an object a line, or .parquet.

    Of a .csv or .tsv, separated by commas, semicolons or tabs, the first line is a header if none of its
    cells is a number, or its numbers count the columns; blank lines are passed over. The labels are in the
    column called label, class, target or y, else in the last; labels that are numbers are told apart by
    their value: 1 and 1.0 are one class.

    Trained on, what each column holds is found out: numbers, dates, categories and where there are gaps. An
    index, an identifier and a column of one value teach nothing and are dropped, with a warning. A column
    called split that holds train, validation and test says which rows to hold out.

    Args:
        place: Where the file is.
        content: Its cells.
        label: The column that holds the labels, by its name or, without a header, its number from 1 on.
        drop: Columns not to learn from, named likewise.
        text: The column that holds texts to learn from, named likewise; the others are not read then.
        group: The column that says what a split keeps together, such as the patient, named likewise; it is
            not learned from.
    """

    kind: ClassVar[str] = "tables"
    about: ClassVar[str] = "tables without labels"
    options: ClassVar[tuple[str, ...]] = ("label", "drop", "text", "group")

    def __init__(
        self,
        place: Place,
        content: TableContent,
        label: str | None = None,
        drop: Sequence[str] = (),
        text: str | None = None,
        group: str | None = None,
    ) -> None:
        self.name = place.path.stem
        self._place = place
        self._content = content
        self._header = content.header
        # Options that do not fit are refused at once.
        self._text = None if text is None else self._position("text", text)
        self._label = None if label is None else self._position("label", label)
        self._group = None if group is None else self._position("group", group)
        self._drop: set[int] = set()
        for column in drop:
            self._drop.update(self._positions("drop", column))
        self._check_label()

    @classmethod
    def recognises(cls, place: Place) -> bool:
        """Files that end in .csv, .tsv, .jsonl, .ndjson or .parquet."""
        return place.is_file() and place.suffix in SUFFIXES

    @classmethod
    def open(
        cls,
        place: Place,
        *,
        label: str | None = None,
        drop: Sequence[str] = (),
        text: str | None = None,
        group: str | int | None = None,
        **_: Any,
    ) -> TableFile:
        """Read all of it."""
        content = read_table(place.read_bytes(), place.short_name, place.suffix)
        return cls(place, content, label, drop, text, None if group is None else str(group))

    def __len__(self) -> int:
        return len(self._content)

    def read(self, indices: Sequence[int]) -> list[Input]:
        """The rows at these positions, named file:1, file:2 and so on; a header is not counted."""
        found = []
        for index, row in zip(indices, self._content.rows(indices), strict=True):
            name = f"{printable(self._place.name)}:{index + 1}"
            if isinstance(row, DataError):
                found.append(Input(name, None, str(row)))
            elif self._text is None:
                found.append(Input(name, row))
            elif len(row.cells) != self._content.width:
                expected = f"{self._content.width} columns expected, got {len(row.cells)}"
                found.append(Input(name, None, f"{row.place}: {expected}"))
            else:
                try:
                    found.append(Input(name, Text(row.cell(self._text), row.place)))
                except DataError as error:
                    found.append(Input(name, None, str(error)))
        return found

    def fingerprint(self) -> str:
        """The digest of the file."""
        return self._place.digest()

    @property
    def labels(self) -> Labels | None:
        """Of the column of labels; every row must have one, and as many cells as the others."""
        column = self._label_column()
        cells = self._content.column(column)
        missing = [index for index, cell in enumerate(cells) if is_no_label(cell)]
        if missing:
            first = missing[0]
            where = f"{self._content.place_of(first)}, column {self.label_name}"
            how_many = (
                f"{len(missing):,} of {len(cells):,} rows {'has' if len(missing) == 1 else 'have'} none"
            )
            raise DataError(
                f"{where}: a label expected, got {cells[first]!r}; {how_many}: write the label, or "
                "remove the row"
            )
        return Labels(*counted(self._place.short_name, cells))

    def labelled(self, preprocess: Preprocess | None = None) -> Table | Texts:
        """All rows without the labels' column, or their texts, and the labels."""
        if isinstance(preprocess, TextPreprocess) and self._text is None:
            return self._with_text(self._text_column(preprocess)).labelled(preprocess)
        if isinstance(preprocess, RowPreprocess) and self._label is None:
            return self._labelled_rows(preprocess)
        labels = self.labels
        assert labels is not None
        if preprocess is None:  # to be trained on: no model says yet what the columns hold
            self._check_classes(labels)
        if self._text is not None:
            return self._labelled_texts(self._text, labels)
        if preprocess is None:
            return self._training_table(labels)
        if not isinstance(preprocess, RowPreprocess):
            preprocess.prepare(Row((), None, self._place.short_name))  # which says that it takes no rows
        assert isinstance(preprocess, RowPreprocess)
        self._require_width(preprocess)
        return self._table_for(preprocess, labels)

    def with_label_of_training(self, label: str | None, columns: Collection[str | None] = ()) -> TableFile:
        """The same table with the labels in the column where they were in training, unless one was asked for.

        Args:
            label: The name of that column, or its number from 1 on; None where it is not known.
            columns: The columns that the model reads: none of them is taken for the labels.

        Raises:
            DataError: If the table has a header, and in it neither this column nor one with a usual name.
        """
        if label is None or self._label is not None:
            return self
        names = [self._name_of(position) for position in range(self._content.width)]
        if label in names:
            return self._with_label(self._position("label", label))
        if self._header is None or label.isdigit():  # a number: the training data had no names either
            return self
        for usual in LABEL_COLUMNS:
            for position, name in enumerate(names):
                if name.lower() == usual and name not in columns:
                    return self._with_label(position)
        raise DataError(
            f"{self._place.short_name} has no column {label!r}, which held the labels in training "
            f"(--label names another); its columns: {self._listed}"
        )

    def _labelled_rows(self, preprocess: RowPreprocess) -> Table | Texts:
        """With the labels where they were in training, as far as the model knows."""
        schema = preprocess.row_schema
        known = self.with_label_of_training(schema.label, schema.names)
        has_names = self._header is not None and schema.has_names
        says_where = any(name.lower() in LABEL_COLUMNS for name in self._header or ())
        is_as_wide = self._content.width == schema.width + 1
        is_by_position = is_as_wide and not has_names and not says_where
        if known._label is None and is_by_position and schema.label_position is not None:
            known = self._with_label(schema.label_position)
        if known._label is None:
            known = self._with_label(self._label_column())
        return known.labelled(preprocess)

    @property
    def label_name(self) -> str:
        """The column that holds the labels, for messages: by its name or its number from 1 on."""
        return self._name_of(self._label_column())

    def _require_width(self, preprocess: Preprocess) -> None:
        """Refuse a surplus column: without names it would be taken for labels once more, and dropped."""
        if not isinstance(preprocess, RowPreprocess) or preprocess.schema is None:
            return
        schema = preprocess.schema
        if self._header is not None and schema.has_names:
            return
        width = self._content.width - 1
        if width == schema.width + 1:
            raise DataError(
                f"{self._place.short_name}: {schema.width} columns beside the labels expected, got {width}; "
                f"the labels were taken from column {self.label_name} (--label names another): remove the "
                "surplus one"
            )

    def _training_table(self, labels: Labels) -> Table:
        """What the columns hold is found out here, and said of those that are dropped."""
        label = self._label_column()
        positions = self._positions_without(label)
        has_names = self._header is not None and len(set(self._header)) == len(self._header)
        skipped = (*self._drop, self._group, self._part_column)
        fitted = fit_columns(self._place.short_name, self._content, positions, has_names, skipped)
        schema = TableSchema(
            fitted.columns,
            has_names,
            fitted.places,
            len(positions),
            fitted.ignored,
            self._name_of(label) if has_names else None,
            self._noted_label(label),
        )
        features = fitted.features
        return Table(features, labels.indices, labels.classes, self.name, schema, self._groups, self._parts)

    @property
    def _groups(self) -> Tensor | None:
        """What a split keeps together, (N,)."""
        if self._group is None:
            return None
        return group_codes(self.name, self._content.column(self._group), len(self))

    @property
    def _part_column(self) -> int | None:
        """The position of a column called split that holds the names of two or more parts, and no other."""
        for position, name in enumerate(self._header or ()):
            if name.lower() == "split" and position not in (self._label, self._text, *self._drop):
                found = {part_of(cell) for cell in set(self._content.column(position))}
                if len(found) > 1 and None not in found:
                    return position
        return None

    @property
    def _parts(self) -> Tensor | None:
        """What each row is for by its own account, (N,)."""
        if self._part_column is None:
            return None
        parts = [part_of(cell) for cell in self._content.column(self._part_column)]
        return torch.tensor(parts, dtype=torch.int64)

    def _table_for(self, preprocess: RowPreprocess, labels: Labels) -> Table:
        """By what a model knows of its columns."""
        label = self._label_column()
        positions = self._positions_without(label)
        rows: list[Tensor] = []
        for row in self._content.rows(range(len(self))):
            if isinstance(row, DataError):
                raise row
            cells = tuple(row.cells[position] for position in positions)
            header = None
            if self._header is not None:
                header = tuple(self._header[position] for position in positions)
            rows.append(preprocess.prepare(Row(cells, header, row.place)))
        features = torch.stack(rows)
        schema = preprocess.row_schema
        return Table(features, labels.indices, labels.classes, self.name, schema, self._groups, self._parts)

    def _labelled_texts(self, position: int, labels: Labels) -> Texts:
        """Empty ones are passed over, with a warning."""
        cells = self._content.column(position)
        kept = [index for index, cell in enumerate(cells) if cell]
        empty = len(cells) - len(kept)
        if not kept:
            raise DataError(
                f"{self._place.short_name}, column {self._name_of(position)}: all texts are empty"
            )
        if empty:
            first = next(index for index, cell in enumerate(cells) if not cell)
            self._warn(
                f"{empty} of {len(cells)} texts are empty and passed over; "
                f"the first: {self._content.place_of(first)}"
            )
        texts = tuple(cells[index] for index in kept)
        name = None if self._header is None else self._header[position]
        groups = None if self._groups is None else self._groups[kept]
        parts = None if self._parts is None else self._parts[kept]
        return Texts(texts, labels.indices[kept], labels.classes, self.name, name, groups, parts)

    def _with_text(self, position: int) -> TableFile:
        """The same table with this column of texts."""
        other = copy(self)
        other._text = position
        other._check_label()
        return other

    def _with_label(self, position: int) -> TableFile:
        """The same table with the labels in this column."""
        other = copy(self)
        other._label = position
        other._check_label()
        return other

    def _check_label(self) -> None:
        if self._label is not None and self._label in (*self._drop, self._text):
            label = self._name_of(self._label)
            raise InputError(f"label must be another column than drop and text, got {label!r}")

    def _text_column(self, preprocess: TextPreprocess) -> int:
        """Where a model finds its texts: by the name of the column, else in the only one there is."""
        if self._header is not None and preprocess.column in self._header:
            return self._header.index(preprocess.column)
        positions = self._positions_without(self._label_column())
        if len(positions) != 1:
            raise DataError(
                f"{self._place.short_name}: the model needs the column {preprocess.column or 'of texts'}; "
                f"the columns: {self._listed}"
            )
        return positions[0]

    def _label_column(self) -> int:
        if self._label is not None:
            return self._label
        others = {self._text, self._group, self._part_column, *self._drop}
        free = [position for position in range(self._content.width) if position not in others]
        if not free:
            raise DataError(f"{self._place.short_name} has no column left for the labels")
        names = None if self._header is None else tuple(self._header[position] for position in free)
        label = free[label_column(names, len(free))]
        if names is not None:
            self._position("label", self._name_of(label))  # two of that name may hold different things
        return label

    def _noted_label(self, column: int) -> int | None:
        """Last without being asked for is a guess: the header of another file may know better."""
        if self._label is None and column == self._content.width - 1:
            return None
        return column

    def _positions_without(self, label: int) -> list[int]:
        return [position for position in range(self._content.width) if position != label]

    def _position(self, option: str, column: str) -> int:
        """Of the one column of a name."""
        positions = self._positions(option, column)
        if len(positions) > 1:
            count = len(positions)
            raise InputError(f"{self._place.short_name}: {option} must be one column, {count} are {column!r}")
        return positions[0]

    def _positions(self, option: str, column: str) -> list[int]:
        """Of columns by their name or, without a header, of one by its number from 1 on."""
        name = self._place.short_name
        if self._header is None:
            width = self._content.width
            if column.isdecimal() and 1 <= int(column) <= width:
                return [int(column) - 1]
            raise InputError(f"{name} has no header: {option} must be 1 to {width}, got {column!r}")
        if column not in self._header:
            raise InputError(f"{name} has no column {column!r}; its columns: {self._listed}")
        return [position for position, each in enumerate(self._header) if each == column]

    def _name_of(self, position: int) -> str:
        return str(position + 1) if self._header is None else self._header[position]

    @property
    def _listed(self) -> str:
        names = [self._name_of(position) or "(no name)" for position in range(self._content.width)]
        more = ", ..." if len(names) > LISTED else ""
        return ", ".join(names[:LISTED]) + more

    def _check_classes(self, labels: Labels) -> None:
        require_two_classes(self._place.short_name, labels.indices, labels.classes)
        count = len(labels.classes)
        if count > MANY_CLASSES and count > len(self) / 2:
            raise DataError(
                f"{self._place.short_name}, column {self.label_name}: {count:,} different "
                f"labels in {len(self):,} rows are no classes; name the labels' column, label=... (--label)"
            )

    def _warn(self, message: str) -> None:
        warnings.warn(f"{self._place.short_name}: {message}", NescioWarning, stacklevel=4)
