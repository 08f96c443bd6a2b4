"""SavedTable, SavedPictures: folders that the `datasets` library saved with save_to_disk.

Their Arrow files are read by pyarrow; the library itself is not needed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from nescio.data._labels import counted, is_no_label
from nescio.data._pictures import RESIZE_MODES, Header
from nescio.data._schema import label_column
from nescio.data._table_files import ArrowTable, cell_text
from nescio.data._values import Picture
from nescio.data.dataset import PARTS, Dataset
from nescio.data.preprocess import ImagePreprocess, Preprocess
from nescio.data.sources._base import Input, Labels, Place, printable
from nescio.data.sources._pictures import SAMPLED_HEADERS, HeaderSummary, PictureSource, checked_size
from nescio.data.sources._tables import TableFile
from nescio.data.splits import group_codes, part_of
from nescio.errors import DataError, InputError, MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa

INFO = "dataset_info.json"
STATE = "state.json"
SPLITS = "dataset_dict.json"
SPLIT_COLUMN = "split"
LONGEST_LIST = 4096  # numbers of a cell that become columns of their own


class _Saved(NamedTuple):
    """What was read: the rows, what the columns are, and the files."""

    table: pa.Table
    features: dict[str, Any]
    files: list[Path]


class SavedTable(TableFile):
    """Rows or texts of a data set in the folder that `save_to_disk` of the `datasets` library wrote.

    A single column of texts beside the labels makes it a source of texts. The labels are in the column whose
    classes have names, else in the one called label, class, target or y, else in the last.

    Args:
        place: Where the folder is.
        saved: What was read of it.
        options: Options of TableFile.
    """

    kind: ClassVar[str] = "saved tables"
    about: ClassVar[str] = "saved data sets without labels"
    options: ClassVar[tuple[str, ...]] = ("label", "drop", "text", "group", "split")

    def __init__(self, place: Place, saved: _Saved, **options: Any) -> None:
        table = _flat(place.short_name, saved.table)
        if options.get("group") is not None:
            options["group"] = str(options["group"])
        options.setdefault("label", _named_label(saved))
        options.setdefault("text", _only_text(table, options["label"]))
        super().__init__(place, ArrowTable(place.short_name, table, tuple(table.column_names)), **options)
        self._files = saved.files

    @classmethod
    def recognises(cls, place: Place) -> bool:
        """Folders with the files that say what was saved, and no column of images."""
        features = _features_of(place)
        return features is not None and not _columns_of(features, "Image")

    @classmethod
    def open(cls, place: Place, *, split: str | None = None, **options: Any) -> SavedTable:
        """Map its files into memory: what is read of them is read when it is needed."""
        return cls(place, _read_saved(place, split), **options)

    def fingerprint(self) -> str:
        """The digest of the files."""
        return _digest_of(self._files)


class SavedPictures(PictureSource):
    """Pictures of a data set in the folder that `save_to_disk` of the `datasets` library wrote.

    Args:
        place: Where the folder is.
        saved: What was read of it.
        label: Name of the column of labels. Default: the one whose classes have names, else the one called
            label, class, target or y, else the last.
        size: Size that every picture is brought to for training, see PictureFolder.
        resize: How a picture is brought to that size, see PictureFolder.
        group: Name of the column that says what a split keeps together.
    """

    kind: ClassVar[str] = "saved pictures"
    about: ClassVar[str] = "saved data sets without labels"
    options: ClassVar[tuple[str, ...]] = ("label", "group", "size", "resize", "split")

    def __init__(
        self,
        place: Place,
        saved: _Saved,
        label: str | None = None,
        size: int | tuple[int, int] | None = None,
        resize: str = "stretch",
        group: str | None = None,
    ) -> None:
        if resize not in RESIZE_MODES:
            raise InputError(f"resize must be one of {', '.join(RESIZE_MODES)}, got {resize!r}")
        for option, name in (("label", label), ("group", group)):
            if name is not None and name not in saved.table.column_names:
                listed = ", ".join(saved.table.column_names)
                raise InputError(f"{place.short_name} has no {option} column {name!r}; its columns: {listed}")
        self.name = place.path.resolve().name
        self._place = place
        self._saved = saved
        self._column = _columns_of(saved.features, "Image")[0]
        self._label = _named_label(saved) if label is None else label
        self._size = checked_size(size)
        self._resize = resize
        self._group = group

    @classmethod
    def recognises(cls, place: Place) -> bool:
        """Folders with the files that say what was saved, and a column of images."""
        features = _features_of(place)
        return features is not None and bool(_columns_of(features, "Image"))

    @classmethod
    def open(cls, place: Place, *, split: str | None = None, **options: Any) -> SavedPictures:
        """Map its files into memory: what is read of them is read when it is needed."""
        return cls(place, _read_saved(place, split), **options)

    def __len__(self) -> int:
        return int(self._saved.table.num_rows)

    def read(self, indices: Sequence[int]) -> list[Input]:
        """The pictures at these positions, named folder:1, folder:2 and so on."""
        cells = self._saved.table.column(self._column).take(list(indices)).to_pylist()
        found = []
        for index, cell in zip(indices, cells, strict=True):
            name = f"{printable(self._place.name)}:{index + 1}"
            content = _content_of(cell, self._place.path)
            if content is None:
                found.append(Input(name, None, "there is no picture"))
            else:
                found.append(Input(name, Picture(content, f"{self._place.short_name}, row {index + 1}")))
        return found

    def fingerprint(self) -> str:
        """The digest of the files."""
        return _digest_of(self._saved.files)

    def header_summary(self) -> HeaderSummary:
        """What the pictures are like, by their headers; none is decoded."""
        return HeaderSummary.of(len(self), self._headers())

    @property
    def labels(self) -> Labels | None:
        """Of the column of labels."""
        if self._label is None:
            return None
        values = [cell_text(value) for value in self._saved.table.column(self._label).to_pylist()]
        for index, value in enumerate(values):
            if is_no_label(value):
                where = f"{self._place.short_name}, row {index + 1}, column {self._label}"
                raise DataError(f"{where}: a label expected, got {value!r}")
        names = self._saved.features.get(self._label, {}).get("names")
        if names is None:
            return Labels(*counted(self._place.short_name, values))
        position = {name: index for index, name in enumerate(names)}
        return Labels(torch.tensor([position[value] for value in values]), tuple(names))

    def labelled(self, preprocess: Preprocess | None = None) -> Dataset:
        """All pictures with their labels; one that can't be read is an error."""
        labels = self.labels
        if labels is None:
            raise DataError(f"{self._place.short_name} has no column of labels; label=... names one")
        form = self._form_for(preprocess, self._headers)
        means = (0.0,) * form.channels
        scales = (255.0,) * form.channels
        prepared = self.prepared(ImagePreprocess(form.shape, means, scales, None, form.resize))
        if prepared.unreadable:
            name, reason = next(iter(prepared.unreadable.items()))
            raise DataError(f"{name}: {reason}")
        groups = None
        if self._group is not None:
            values = self._saved.table.column(self._group).to_pylist()
            groups = group_codes(self.name, values, len(self))
        return Dataset(
            prepared.inputs, labels.indices, labels.classes, self.name, form.resize, groups, self._parts()
        )

    def _parts(self) -> Tensor | None:
        if SPLIT_COLUMN not in self._saved.table.column_names:
            return None
        parts = [part_of(name) for name in self._saved.table.column(SPLIT_COLUMN).to_pylist()]
        return None if None in parts else torch.tensor(parts, dtype=torch.int64)

    def _headers(self) -> list[Header]:
        """Of all pictures, some rows at a time."""
        headers = []
        for first in range(0, len(self), SAMPLED_HEADERS):
            for one in self.read(range(first, min(first + SAMPLED_HEADERS, len(self)))):
                if not isinstance(one.value, Picture):
                    raise DataError(f"{one.name}: {one.error}")
                headers.append(one.value.header())
        return headers


def _features_of(place: Place) -> dict[str, Any] | None:
    """What the columns of a saved data set are, by their names; None for any other place."""
    if not place.is_folder():
        return None
    folder = place.path
    if (folder / SPLITS).is_file():
        names = _json_of(folder / SPLITS).get("splits") or [""]
        folder = folder / names[0]
    if not (folder / INFO).is_file() or not (folder / STATE).is_file():
        return None
    return _json_of(folder / INFO).get("features") or {}


def _read_saved(place: Place, split: str | None) -> _Saved:
    """The rows of all parts, or of one, with the part as a column where there are several."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtraError("tables", "pyarrow") from error
    folder = place.path
    if not (folder / SPLITS).is_file():
        if split is not None:
            raise InputError(f"split goes with a data set of several parts, not with {place.short_name}")
        return _read_one(folder)
    names = _json_of(folder / SPLITS).get("splits", [])
    if split is not None:
        wanted = part_of(split)
        names = [name for name in names if name == split or (wanted is not None and part_of(name) == wanted)]
        if not names:
            raise DataError(f"{place.short_name} has no part {split}")
    elif any(part_of(name) == PARTS.index("train") for name in names):
        names = [name for name in names if part_of(name) is not None]  # others are of no use in training
    parts = [_read_one(folder / name) for name in names]
    if not parts:
        raise DataError(f"{place.short_name} holds no parts")
    tables = []
    files: list[Path] = []
    for name, part in zip(names, parts, strict=True):
        table = part.table
        if len(parts) > 1 and SPLIT_COLUMN not in table.column_names:
            table = table.append_column(SPLIT_COLUMN, pa.array([name] * table.num_rows))
        tables.append(table)
        files += part.files
    try:
        together = pa.concat_tables(tables)
    except pa.ArrowException as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{place.short_name}: the parts do not fit together: {reason}") from error
    return _Saved(together, parts[0].features, files)


def _read_one(folder: Path) -> _Saved:
    import pyarrow as pa

    features = _json_of(folder / INFO).get("features") or {}
    state = _json_of(folder / STATE)
    if state.get("_indices_files"):
        raise DataError(f"{folder} holds a selection of rows; save it again after flatten_indices()")
    files = []
    tables = []
    for entry in state.get("_data_files", []):
        path = folder / entry["filename"]
        try:
            tables.append(pa.ipc.open_stream(pa.memory_map(str(path))).read_all())
        except (pa.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())
            raise DataError(f"{path} is not an Arrow file that can be read: {reason}") from error
        files.append(path)
    if not tables or sum(table.num_rows for table in tables) == 0:
        raise DataError(f"{folder} holds no rows")
    return _Saved(_with_names(pa.concat_tables(tables), features), features, files)


def _with_names(table: pa.Table, features: dict[str, Any]) -> pa.Table:
    """Numbers that stand for classes as the names of the classes."""
    import pyarrow as pa

    for column in _columns_of(features, "ClassLabel"):
        names = features[column].get("names") or []
        values = []
        for number in table.column(column).to_pylist():
            is_known = isinstance(number, int) and 0 <= number < len(names)
            values.append(names[number] if is_known else None)
        position = table.column_names.index(column)
        table = table.set_column(position, column, pa.array(values, pa.string()))
    return table


def _flat(name: str, table: pa.Table) -> pa.Table:
    """Lists of numbers, as vectors are saved, as one column for each number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for column in table.column_names:
        values = table.column(column)
        if not (pa.types.is_list(values.type) or pa.types.is_fixed_size_list(values.type)):
            continue
        lengths = pc.unique(pc.list_value_length(values)).to_pylist()
        if len(lengths) != 1 or lengths[0] is None or not 1 <= lengths[0] <= LONGEST_LIST:
            raise DataError(f"{name}, column {column}: lists must be of one length, got {lengths[:5]}")
        position = table.column_names.index(column)
        table = table.remove_column(position)
        for place in range(lengths[0]):
            table = table.add_column(position + place, f"{column}.{place}", pc.list_element(values, place))
    return table


def _named_label(saved: _Saved) -> str | None:
    """The column whose classes have names, else one with a usual name, else the last; no column of images."""
    named = _columns_of(saved.features, "ClassLabel")
    if len(named) == 1:
        return named[0]
    names = [name for name in saved.table.column_names if name != SPLIT_COLUMN]
    usual = names[label_column(tuple(names), len(names))]
    return usual if saved.features.get(usual, {}).get("_type") != "Image" else None


def _only_text(table: pa.Table, label: str | None) -> str | None:
    """The column of texts where there is no other beside the labels."""
    import pyarrow as pa

    others = [name for name in table.column_names if name not in (label, SPLIT_COLUMN)]
    if len(others) != 1:
        return None
    kind = table.column(others[0]).type
    return others[0] if pa.types.is_string(kind) or pa.types.is_large_string(kind) else None


def _columns_of(features: dict[str, Any], kind: str) -> list[str]:
    found = []
    for name, feature in features.items():
        if isinstance(feature, dict) and feature.get("_type") == kind:
            found.append(name)
    return found


def _content_of(cell: Any, folder: Path) -> Path | bytes | None:
    """The bytes of an image, or where its file is; None where there is neither."""
    if not isinstance(cell, dict):
        return None
    if cell.get("bytes"):
        return bytes(cell["bytes"])
    return folder / cell["path"] if cell.get("path") else None


def _json_of(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} can't be read: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} must hold an object, got {type(content).__name__}")
    return content


def _digest_of(files: Sequence[Path]) -> str:
    found = hashlib.sha256()
    for path in files:
        found.update(Place(str(path)).digest().encode())
    return found.hexdigest()
