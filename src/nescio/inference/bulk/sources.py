"""What is scored: a folder of pictures, an .npz of images or features, a .csv of numbers; without labels."""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from nescio.data._pictures import SUFFIXES, read_picture
from nescio.data._user_data import LABEL_COLUMNS, LARGEST_NUMBER, UNREADABLE_NPZ
from nescio.errors import DataError

Shape = tuple[int, ...]
LARGEST_PIXEL = 255


class Input(NamedTuple):
    """One input by its name: its values (...) or, where it can't be read, the reason."""

    name: str
    values: Tensor | None
    error: str | None = None


class Source(Protocol):
    """Inputs in a fixed order."""

    def __len__(self) -> int: ...

    def read(self, start: int, end: int) -> list[Input]:
        """Those from start up to end."""
        ...

    def fingerprint(self) -> str:
        """Another one where anything about the inputs has changed."""
        ...


def open_source(path: Path, shape: Shape) -> Source:
    """The inputs at a path, for a model that takes this shape."""
    kind = path.suffix.lower()
    if path.is_dir():
        return Folder.of(path, shape)
    if path.is_file() and kind == ".npz":
        return Values.of_npz(path, shape)
    if path.is_file() and kind == ".csv":
        return Values.of_csv(path, shape)
    raise DataError(f"{path} must be a folder of pictures, an .npz file or a .csv file")


@dataclass(frozen=True)
class Folder:
    """Pictures, however deep in the folder, by name."""

    folder: Path
    names: tuple[str, ...]
    shape: Shape

    @classmethod
    def of(cls, folder: Path, shape: Shape) -> Folder:
        """All files that are named as pictures and not hidden."""
        if len(shape) != 3:
            raise DataError(
                f"the model takes rows of numbers, {folder} is a folder; give a .csv or .npz file"
            )
        found = (path.relative_to(folder) for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
        names = sorted(path.as_posix() for path in found if not any(part[0] == "." for part in path.parts))
        if not names:
            raise DataError(f"{folder} holds no picture")
        return cls(folder, tuple(names), shape)

    def __len__(self) -> int:
        return len(self.names)

    def read(self, start: int, end: int) -> list[Input]:
        """A damaged picture is an input with an error."""
        return [self._read(name) for name in self.names[start:end]]

    def _read(self, name: str) -> Input:
        try:
            return Input(
                name, read_picture(self.folder / name, self.shape[0], (self.shape[1], self.shape[2]))
            )
        except DataError as error:
            return Input(name, None, " ".join(str(error).split()))

    def fingerprint(self) -> str:
        """Names, sizes and times of change."""
        states = ((name, (self.folder / name).stat()) for name in self.names)
        lines = (f"{name}\0{state.st_size}\0{state.st_mtime_ns}\n" for name, state in states)
        return hashlib.sha256("".join(lines).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Values:
    """Inputs in memory, by their position; errors: why a row is none, by position."""

    values: Tensor
    errors: dict[int, str]
    path: Path

    @classmethod
    def of_npz(cls, path: Path, shape: Shape) -> Values:
        """The array `images` or `features`, or the only one there is."""
        values = torch.from_numpy(_only_array(path))
        if len(shape) == 3 and values.ndim == 3:
            values = values.unsqueeze(1)
        if values.ndim == 4 and tuple(values.shape[1:]) != shape:
            values = values.permute(0, 3, 1, 2)  # (N, H, W, C)
        if tuple(values.shape[1:]) != shape or not len(values):
            raise DataError(f"{path.name} must hold inputs {shape}, got {tuple(values.shape[1:])}")
        if values.dtype != torch.uint8:
            values = values.float()
        return cls(values, _faults(values), path)

    @classmethod
    def of_csv(cls, path: Path, shape: Shape) -> Values:
        """The columns but the label's; a row that is not all numbers is an input with an error."""
        header, rows = _table(path)
        columns = _columns(path, header, shape)
        values, errors = torch.zeros(len(rows), len(columns)), {}
        for position, row in enumerate(rows):
            try:
                values[position] = torch.tensor([_number(row[column]) for column in columns])
            except (IndexError, ValueError):
                errors[position] = f"row {position + 1} is not {len(columns)} finite numbers"
        return cls(values, errors, path)

    def __len__(self) -> int:
        return len(self.values)

    def read(self, start: int, end: int) -> list[Input]:
        """Named by their position, from 0."""
        return [
            Input(str(index), None if index in self.errors else self.values[index], self.errors.get(index))
            for index in range(start, min(end, len(self)))
        ]

    def fingerprint(self) -> str:
        """Of the file's bytes."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()


def _only_array(path: Path) -> np.ndarray:
    try:
        with np.load(path, allow_pickle=False) as file:
            names = [name for name in ("images", "features") if name in file.files] or file.files
            if len(names) != 1:
                raise DataError(
                    f"{path.name} must hold images or features, got {', '.join(names) or 'nothing'}"
                )
            array: np.ndarray = file[names[0]]
    except UNREADABLE_NPZ as error:
        raise DataError(f"{path.name} is not an .npz file of plain arrays: {error}") from error
    if array.dtype.kind not in "fiu" or array.dtype == np.uint64:
        raise DataError(f"{path.name}: inputs must be numbers, got {array.dtype}")
    return array


def _faults(values: Tensor) -> dict[int, str]:
    """Why an input (of N, ...) is none, by position; images have pixels from 0 to 255."""
    if not values.is_floating_point():
        return {}
    faults = {}
    if values.ndim == 4:
        outside = ((values < 0) | (values > LARGEST_PIXEL)).flatten(1).any(1)
        faults = dict.fromkeys(_places(outside), "has pixels that are not 0 to 255")
    infinite = ~values.isfinite().flatten(1).all(1)
    return faults | dict.fromkeys(_places(infinite), "has a value that is not finite")


def _places(where: Tensor) -> list[int]:
    return where.nonzero().flatten().tolist()


def _table(path: Path) -> tuple[list[str], list[list[str]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path.name} can't be read: {error}") from error
    if len(rows) < 2:
        raise DataError(f"{path.name} needs a header and one or more rows")
    return [cell.strip() for cell in rows[0]], rows[1:]


def _columns(path: Path, header: Sequence[str], shape: Shape) -> list[int]:
    """Those of the numbers; one column more is the label, found as in training, and left out."""
    if len(shape) != 1:
        raise DataError(f"the model takes pictures {shape}, not the rows of {path.name}")
    everything = list(range(len(header)))
    if len(header) == shape[0] + 1:
        usual = [index for index in everything if header[index].lower() in LABEL_COLUMNS]
        everything.remove(usual[0] if usual else everything[-1])
    if len(everything) != shape[0]:
        raise DataError(f"{path.name} must have {shape[0]} columns of numbers, got {len(header)}")
    return everything


def _number(cell: str) -> float:
    number = float(cell)
    if not (math.isfinite(number) and abs(number) <= LARGEST_NUMBER):
        raise ValueError(cell)
    return number
