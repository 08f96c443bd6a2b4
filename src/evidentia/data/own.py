"""The user's own data: a folder of pictures, an .npz file, a .csv file."""

from __future__ import annotations

import csv
import math
import warnings
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from evidentia.data.dataset import Dataset, Table
from evidentia.data.pictures import SUFFIXES, is_grey, open_picture, read_picture, upright_size
from evidentia.errors import DataError, EvidentiaWarning, InputError

LARGEST_OWN_SIZE = 64
USUAL_SIZE = (32, 32)
LABEL_COLUMNS = ("label", "class", "target", "y")


def from_path(path: str | Path, **options: object) -> Dataset | Table:
    """A folder of pictures, an .npz or a .csv, told apart by what the path is."""
    path = Path(path)
    if path.is_dir():
        return from_folder(path, **options)  # type: ignore[arg-type]
    readers = {".npz": from_npz, ".csv": from_csv}
    if not path.is_file() or path.suffix not in readers:
        raise DataError(f"{path} must be a folder of class folders, an .npz file or a .csv file")
    return readers[path.suffix](path, **options)


def from_folder(folder: str | Path, size: tuple[int, int] | None = None, *, strict: bool = False) -> Dataset:
    """Pictures in one sub-folder a class: PNG, JPEG, BMP or WebP, grey or colour.

    size: (height, width) to stretch every picture to; default the pictures' own size if they share one
    of at most 64 pixels a side, else 32 x 32.
    strict: refuse a file that is no picture; otherwise such files are named in a warning and passed over.
    """
    folder = Path(folder)
    paths, labels, classes = _class_folders(folder)
    paths, labels = _readable(paths, labels, strict)
    for index, name in enumerate(classes):
        if index not in labels:
            raise DataError(f"class folder {name} in {folder} holds no readable picture")
    channels, shared = _common_form(paths)
    size = size or shared
    images = torch.empty((len(paths), channels, *size), dtype=torch.uint8)
    for index, path in enumerate(paths):
        images[index] = read_picture(path, channels, size)
    return Dataset(images, torch.tensor(labels), tuple(classes), folder.name)


def _class_folders(folder: Path) -> tuple[list[Path], list[int], list[str]]:
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder")
    classes = sorted(p.name for p in folder.iterdir() if p.is_dir() and p.name[0] != ".")
    if len(classes) < 2:
        found = f"only {classes[0]}" if classes else "none"
        raise DataError(f"{folder} needs two or more class folders, got {found}")
    pairs = [
        (path, index)
        for index, name in enumerate(classes)
        for path in sorted((folder / name).rglob("*"))
        if path.suffix.lower() in SUFFIXES and path.is_file()
    ]
    return [path for path, _ in pairs], [index for _, index in pairs], classes


def _readable(paths: list[Path], labels: list[int], strict: bool) -> tuple[list[Path], list[int]]:
    good, bad = [], []
    for path, label in zip(paths, labels, strict=True):
        try:
            with open_picture(path) as picture:
                picture.verify()
            good.append((path, label))
        except (DataError, OSError, SyntaxError, ValueError) as error:
            bad.append(f"{path.parent.name}/{path.name} ({error})")
    if bad:
        message = f"{len(bad)} of {len(paths)} files can't be read as pictures: {_listed(bad)}"
        if strict:
            raise DataError(message)
        warnings.warn(f"{message}; they are passed over", EvidentiaWarning, stacklevel=3)
    return [path for path, _ in good], [label for _, label in good]


def _listed(items: Sequence[str], most: int = 5) -> str:
    rest = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + rest


def _common_form(paths: list[Path]) -> tuple[int, tuple[int, int]]:
    """The number of channels that holds every picture, and the size to use where none is given."""
    sizes: Counter[tuple[int, int]] = Counter()
    grey = True
    for path in paths:
        with open_picture(path) as picture:
            sizes[upright_size(picture)] += 1
            grey = grey and is_grey(picture)
    shared = next(iter(sizes))
    usable = len(sizes) == 1 and max(shared) <= LARGEST_OWN_SIZE
    return (1 if grey else 3), (shared if usable else USUAL_SIZE)


def from_npz(path: str | Path) -> Dataset | Table:
    """Arrays `images` or `features`, `labels`, and, if you like, `classes` (names) from an .npz file.

    images: uint8 (N, H, W), (N, H, W, C) or (N, C, H, W), C being 1 or 3; features: numbers (N, F).
    """
    path = Path(path)
    try:
        with path.open("rb") as raw:
            file = np.load(raw, allow_pickle=False)
            arrays = dict(file) if isinstance(file, np.lib.npyio.NpzFile) else {}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path.name} is not an .npz file of plain arrays: {error}") from error
    if "labels" not in arrays or not {"images", "features"} & arrays.keys():
        raise DataError(
            f"{path.name} must hold labels and images or features, got {', '.join(arrays) or '-'}"
        )
    if arrays["labels"].ndim != 1:
        raise DataError(f"{path.name}: labels must be one-dimensional, got {arrays['labels'].shape}")
    labels, classes = _labels(path.name, arrays["labels"].tolist(), arrays.get("classes"))
    if "images" in arrays:
        return Dataset(_channels_first(path.name, arrays["images"]), labels, classes, path.stem)
    if arrays["features"].dtype.kind not in "fiub":
        raise DataError(f"{path.name}: features must be numbers, got {arrays['features'].dtype}")
    features = torch.from_numpy(arrays["features"].astype(np.float32))
    return Table(features, labels, classes, path.stem)


def _channels_first(name: str, images: np.ndarray) -> Tensor:
    if images.dtype != np.uint8:
        raise DataError(f"{name}: images must be uint8 0..255, got {images.dtype}")
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
    """
    path = Path(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header, *rows = [row for row in csv.reader(file) if row] or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path.name} can't be read: {error}") from error
    if len(header) < 2 or not rows:
        raise DataError(f"{path.name} needs a header, a label column, numbers and one or more rows")
    column = _label_column(path.name, header, label)
    features = np.empty((len(rows), len(header) - 1), dtype=np.float32)
    for index, row in enumerate(rows):
        features[index] = _numbers(path.name, header, row, column, line=index + 2)
    labels, classes = _labels(path.name, [row[column].strip() for row in rows], None)
    return Table(torch.from_numpy(features), labels, classes, path.stem)


def _label_column(name: str, header: list[str], label: str | None) -> int:
    names = [column.strip() for column in header]
    if label is not None and label not in names:
        raise InputError(f"{name} has no column {label!r}; its columns: {_listed(names, 12)}")
    usual = [column for column in names if column.lower() in LABEL_COLUMNS]
    return names.index(label or (usual[0] if usual else names[-1]))


def _numbers(name: str, header: list[str], row: list[str], skip: int, line: int) -> list[float]:
    if len(row) != len(header):
        raise DataError(f"{name}, line {line}: {len(header)} columns expected, got {len(row)}")
    numbers = []
    for index, cell in enumerate(row):
        if index != skip:
            try:
                number = float(cell)
            except ValueError:
                number = math.nan
            if not math.isfinite(number):
                raise DataError(
                    f"{name}, line {line}, column {header[index]}: "
                    f"a finite number expected, got {cell.strip()!r}"
                )
            numbers.append(number)
    return numbers


def _labels(
    name: str,
    values: list[object],
    classes: np.ndarray | None,
) -> tuple[Tensor, tuple[str, ...]]:
    """Labels counted from 0 and the names they stand for, two or more."""
    if classes is not None:
        names = tuple(str(one) for one in classes.tolist())
        if not all(isinstance(value, int) and 0 <= value < len(names) for value in values):
            raise DataError(f"{name}: with classes, labels must be 0..{len(names) - 1}")
        return torch.tensor(values, dtype=torch.int64), names
    found = sorted({str(value) for value in values}, key=_in_order)
    if len(found) < 2:
        raise DataError(f"{name} needs two or more classes, got {found}")
    position = {one: index for index, one in enumerate(found)}
    return torch.tensor([position[str(value)] for value in values]), tuple(found)


def _in_order(label: str) -> tuple[int, float, str]:
    """Numbers by value, before everything else by name."""
    try:
        return 0, float(label), label
    except ValueError:
        return 1, 0.0, label
