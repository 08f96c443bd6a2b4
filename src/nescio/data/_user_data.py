"""The user's own data: a folder of pictures, an .npz file, a .csv file."""

from __future__ import annotations

import csv
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nescio._checks import require_whole
from nescio.data._pictures import SUFFIXES, Header, read_header, read_picture
from nescio.data.dataset import Dataset, Table
from nescio.errors import DataError, InputError, NescioWarning

LARGEST_OWN_SIZE = 64
USUAL_SIZE = (32, 32)
SYSTEM_FILES = ("thumbs.db", "desktop.ini")
LARGEST_NUMBER = float(np.finfo(np.float32).max)
# What numpy and zipfile raise on a file that is no .npz, or a damaged one, or one that claims too much.
UNREADABLE_NPZ = (
    *(EOFError, MemoryError, OSError, OverflowError, RuntimeError, SyntaxError, ValueError),
    *(zipfile.BadZipFile, zlib.error),
)
LABEL_COLUMNS = ("label", "class", "target", "y")


def from_path(
    path: str | Path,
    *,
    size: int | tuple[int, int] | None = None,
    strict: bool = False,
    label: str | None = None,
) -> Dataset | Table:
    """A folder of pictures, an .npz or a .csv, told apart by what the path is.

    size and strict go with a folder (see from_folder), label with a .csv (see from_csv).
    """
    path = Path(path)
    kind = "folder" if path.is_dir() else path.suffix.lower()
    if kind != "folder" and not (path.is_file() and kind in (".npz", ".csv")):
        raise DataError(f"{path} must be a folder of class folders, an .npz file or a .csv file")
    if kind != "folder" and (size is not None or strict):
        raise InputError(f"size and strict go with a folder of pictures, not with {path.name}")
    if kind != ".csv" and label is not None:
        raise InputError(f"label goes with a .csv file, not with {path.name}")
    if kind == "folder":
        return from_folder(path, size, strict=strict)
    return from_npz(path) if kind == ".npz" else from_csv(path, label)


def from_folder(
    folder: str | Path, size: int | tuple[int, int] | None = None, *, strict: bool = False
) -> Dataset:
    """Pictures in one sub-folder a class: PNG, JPEG, BMP or WebP, grey or colour.

    size: (height, width) to stretch every picture to, or one number for a square; default the pictures'
    own size if they share one of at most 64 pixels a side, else 32 x 32.
    strict: refuse files that can't be read as pictures; otherwise one warning counts and names them, and
    they are passed over. Hidden files are not looked at.
    """
    folder = Path(folder)
    asked = _checked_size(size)
    classes = _class_names(folder)
    files = {path: label for label, name in enumerate(classes) for path in _files(folder / name)}
    bad: dict[Path, str] = {}
    headers = _headers(files, bad)
    channels, shared = _common_form(headers.values())
    images, read = _pixels(list(headers), channels, asked or shared, bad)
    _tell_of(bad, len(files), strict)
    labels = [files[path] for path in read]
    filled = set(labels)
    for label, name in enumerate(classes):
        if label not in filled:
            raise DataError(f"class folder {name} in {folder} holds no readable picture")
    return Dataset(images, torch.tensor(labels), tuple(classes), folder.resolve().name)


def _checked_size(size: object) -> tuple[int, int] | None:
    if size is None:
        return None
    sides = size if isinstance(size, tuple | list) else (size, size)
    if len(sides) != 2:
        raise InputError(f"size must be (height, width), got {size!r}")
    for name, side in zip(("height", "width"), sides, strict=True):
        require_whole(f"size: {name}", side, least=1)
    return sides[0], sides[1]


def _class_names(folder: Path) -> list[str]:
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder")
    classes = sorted(p.name for p in folder.iterdir() if p.is_dir() and p.name[0] != ".")
    if len(classes) < 2:
        found = f"only {classes[0]}" if classes else "none"
        raise DataError(f"{folder} needs two or more class folders, got {found}")
    return classes


def _files(class_folder: Path) -> list[Path]:
    paths = sorted(path for path in class_folder.rglob("*") if path.is_file())
    return [path for path in paths if not _is_hidden(path.relative_to(class_folder))]


def _is_hidden(path: Path) -> bool:
    return path.name.lower() in SYSTEM_FILES or any(part[0] == "." for part in path.parts)


def _headers(paths: Iterable[Path], bad: dict[Path, str]) -> dict[Path, Header]:
    """The headers of all that look like pictures from outside; the rest joins the bad."""
    headers = {}
    for path in paths:
        try:
            if path.suffix.lower() not in SUFFIXES:
                raise DataError(f"{path.name} is named as none of {', '.join(SUFFIXES)}")
            headers[path] = read_header(path)
        except DataError as error:
            bad[path] = str(error)
    return headers


def _common_form(headers: Iterable[Header]) -> tuple[int, tuple[int, int]]:
    """The number of channels that holds every picture, and the size to use where none is given."""
    headers = list(headers)
    sizes = {header.size for header in headers}
    shared = sizes.pop() if len(sizes) == 1 else USUAL_SIZE
    channels = 1 if all(header.grey for header in headers) else 3
    return channels, (shared if max(shared) <= LARGEST_OWN_SIZE else USUAL_SIZE)


def _pixels(
    paths: list[Path], channels: int, size: tuple[int, int], bad: dict[Path, str]
) -> tuple[Tensor, list[Path]]:
    """Images uint8 (N, channels, height, width) and the N files they are of; damaged ones join the bad."""
    images = torch.empty((len(paths), channels, *size), dtype=torch.uint8)
    read: list[Path] = []
    for path in paths:
        try:
            images[len(read)] = read_picture(path, channels, size)
            read.append(path)
        except DataError as error:
            bad[path] = str(error)
    return images[: len(read)], read


def _tell_of(bad: dict[Path, str], count: int, strict: bool) -> None:
    if not bad:
        return
    named = _listed([f"{path.parent.name}/{path.name} ({bad[path]})" for path in sorted(bad)])
    message = f"{len(bad)} of {count} files can't be read as pictures: {named}"
    if strict:
        raise DataError(message)
    warnings.warn(f"{message}; they are passed over", NescioWarning, stacklevel=3)


def _listed(items: Sequence[str], most: int = 5) -> str:
    rest = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + rest


def from_npz(path: str | Path) -> Dataset | Table:
    """Arrays `images` or `features`, `labels`, and, if you like, `classes` (names) from an .npz file.

    images: uint8 (N, H, W), (N, H, W, C) or (N, C, H, W), C being 1 or 3; features: numbers (N, F).
    """
    path = Path(path)
    arrays = _npz_arrays(path)
    labels, classes = _npz_labels(path.name, arrays["labels"], arrays.get("classes"))
    if "images" in arrays:
        return Dataset(_channels_first(path.name, arrays["images"]), labels, classes, path.stem)
    return Table(_features(path.name, arrays["features"]), labels, classes, path.stem)


def inputs_from_npz(path: str | Path) -> Tensor:
    """The arrays `images` or `features` of an .npz file alone, as `from_npz` reads them; labels or none."""
    path = Path(path)
    arrays = _npz_arrays(path, labelled=False)
    if "images" in arrays:
        return _channels_first(path.name, arrays["images"])
    features = _features(path.name, arrays["features"])
    if features.ndim != 2:
        raise DataError(f"{path.name}: features must be (N, F), got {tuple(features.shape)}")
    if not features.isfinite().all():
        raise DataError(f"{path.name}: features must be finite, got NaN or infinity")
    return features


def _features(name: str, array: np.ndarray) -> Tensor:
    if array.dtype.kind not in "fiub":
        raise DataError(f"{name}: features must be numbers, got {array.dtype}")
    with np.errstate(over="ignore"):  # what float32 can't hold becomes infinite, which is refused later
        return torch.from_numpy(array.astype(np.float32))


def _npz_arrays(path: Path, labelled: bool = True) -> dict[str, np.ndarray]:
    """The arrays that are needed, and no other one."""
    try:
        with path.open("rb") as raw:
            file = np.load(raw, allow_pickle=False)
            names = file.files if isinstance(file, np.lib.npyio.NpzFile) else []
            content = next((name for name in ("images", "features") if name in names), None)
            if content is None or (labelled and "labels" not in names):
                needed = "labels and images or features" if labelled else "images or features"
                raise DataError(f"{path.name} must hold {needed}, got {_listed(names, 12) or '-'}")
            wanted = (content, "labels", "classes") if labelled else (content,)
            return {name: file[name] for name in wanted if name in names}
    except UNREADABLE_NPZ as error:
        reason = error if str(error) else type(error).__name__
        raise DataError(f"{path.name} is not an .npz file of plain arrays: {reason}") from error


def _npz_labels(name: str, labels: np.ndarray, classes: np.ndarray | None) -> tuple[Tensor, tuple[str, ...]]:
    if labels.ndim != 1 or labels.dtype.kind not in "biufSU":
        raise DataError(f"{name}: labels must be one-dimensional numbers or names, got {_form(labels)}")
    values = [_text(name, value) for value in labels.tolist()]
    for position, value in enumerate(values):
        if _is_no_label(str(value)):
            raise DataError(f"{name}, labels[{position}]: a label expected, got {str(value)!r}")
    if classes is None:
        return _counted(name, values)
    if classes.ndim != 1 or classes.dtype.kind not in "SU" or len(classes) < 2:
        raise DataError(f"{name}: classes must be two or more names, got {_form(classes)}")
    if labels.dtype.kind not in "iu" or not np.isin(labels, range(len(classes))).all():
        raise DataError(f"{name}: with classes, labels must be 0..{len(classes) - 1}")
    names = tuple(str(_text(name, one)) for one in classes.tolist())
    return torch.from_numpy(labels.astype(np.int64)), names


def _form(array: np.ndarray) -> str:
    return f"{array.dtype} {array.shape}"


def _text(name: str, value: object) -> object:
    """Bytes as the text they spell, all else as it is."""
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: {value!r} is not UTF-8") from error


def _channels_first(name: str, images: np.ndarray) -> Tensor:
    if images.dtype != np.uint8:
        found = " with NaN" if images.dtype.kind == "f" and np.isnan(images).any() else ""
        raise DataError(f"{name}: images must be uint8 0..255, got {images.dtype}{found}")
    pixels = torch.from_numpy(images)
    if pixels.ndim == 3:
        return pixels.unsqueeze(1)
    if pixels.ndim == 4 and pixels.shape[1] in (1, 3):
        return pixels
    if pixels.ndim == 4 and pixels.shape[3] in (1, 3):
        return pixels.permute(0, 3, 1, 2).contiguous()
    raise DataError(f"{name}: images must be (N, H, W), (N, H, W, C) or (N, C, H, W), got {images.shape}")


def from_csv(path: str | Path, label: str | None = None) -> Table:
    """Rows of numbers with a label column, from a .csv file with a header.

    label: the column that holds the labels; default label, class, target or y, else the last column.
    Labels that are numbers are told apart by their value: 1 and 1.0 are one class.
    """
    path = Path(path)
    header, rows = _csv_rows(path)
    column = _label_column(path.name, header, label)
    features = np.empty((len(rows), len(header) - 1), dtype=np.float32)
    labels: list[object] = []
    for index, (line, row) in enumerate(rows):
        _require_columns(path.name, line, row, header)
        if _is_no_label(row[column]):
            where = f"{path.name}, line {line}, column {header[column]}"
            raise DataError(f"{where}: a label expected, got {row[column]!r}")
        labels.append(row.pop(column))
        features[index] = _numbers(path.name, line, row, header[:column] + header[column + 1 :])
    numbers, classes = _counted(path.name, labels)
    return Table(torch.from_numpy(features), numbers, classes, path.stem)


def inputs_from_csv(path: str | Path, width: int) -> Tensor:
    """Rows of `width` numbers (N, width), from a .csv file with a header that may have a label column too."""
    path = Path(path)
    header, rows = _csv_rows(path, labelled=False)
    if len(header) not in (width, width + 1):
        raise DataError(f"{path.name} must have {width} columns of numbers, got {len(header)} columns")
    label = _label_column(path.name, header, None) if len(header) > width else len(header)
    features = np.empty((len(rows), width), dtype=np.float32)
    for index, (line, row) in enumerate(rows):
        _require_columns(path.name, line, row, header)
        features[index] = _numbers(
            path.name, line, row[:label] + row[label + 1 :], header[:label] + header[label + 1 :]
        )
    return torch.from_numpy(features)


def _csv_rows(path: Path, labelled: bool = True) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, and each row that is not blank with the number of its line; cells without spaces around."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path.name} can't be read: {error}") from error
    rows = [(line, row) for line, row in rows if any(row)]
    header = rows[0][1] if rows else []
    least = 2 if labelled else 1
    if len(header) < least or len(rows) < 2 or all(_number(cell) is not None for cell in header):
        column = "a label column, " if labelled else ""
        raise DataError(f"{path.name} needs a header, {column}numbers and one or more rows")
    return header, rows[1:]


def _require_columns(name: str, line: int, row: list[str], header: list[str]) -> None:
    if len(row) != len(header):
        raise DataError(f"{name}, line {line}: {len(header)} columns expected, got {len(row)}")


def _label_column(name: str, header: list[str], label: str | None) -> int:
    if label is not None and label not in header:
        raise InputError(f"{name} has no column {label!r}; its columns: {_listed(header, 12)}")
    usual = [column for column in header if column.lower() in LABEL_COLUMNS]
    return header.index(label or (usual[0] if usual else header[-1]))


def _numbers(name: str, line: int, cells: list[str], columns: list[str]) -> list[float]:
    numbers = []
    for cell, column in zip(cells, columns, strict=True):
        number = _number(cell)
        if number is None or not abs(number) <= LARGEST_NUMBER:
            where = f"{name}, line {line}, column {column}"
            raise DataError(f"{where}: a finite number expected that float32 can hold, got {cell!r}")
        numbers.append(number)
    return numbers


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_no_label(text: str) -> bool:
    return text.strip().lower() in ("", "nan")


def _counted(name: str, values: list[object]) -> tuple[Tensor, tuple[str, ...]]:
    """Labels counted from 0 and the names they stand for, two or more."""
    names = {value: _class_name(str(value)) for value in set(values)}
    found = sorted(set(names.values()), key=_in_order)
    if len(found) < 2:
        raise DataError(f"{name} needs two or more classes, got {found}")
    position = {one: index for index, one in enumerate(found)}
    return torch.tensor([position[names[value]] for value in values]), tuple(found)


def _class_name(label: str) -> str:
    """Numbers by their value, whole ones without a fraction: 1, 1.0 and 1e0 are one class."""
    number = _number(label)
    # Of whole numbers beyond 2**53 a float knows only the first digits: they stay as they are written.
    if number is None or "_" in label or not abs(number) < 2**53:
        return label
    return str(int(number)) if number.is_integer() else str(number)


def _in_order(label: str) -> tuple[int, float, str]:
    """Numbers by value, before everything else by name."""
    number = _number(label)
    return (1, 0.0, label) if number is None else (0, number, label)
