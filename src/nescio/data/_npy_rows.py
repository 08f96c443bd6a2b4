"""Rows of an .npy file: where rows come from, and how they are read by their positions.

Rows are read by positioned reads into fresh tensors, not by a mapping: the pages of a mapping count as memory
of the process, and a limit on it would be met by data that only lies on the disk.
"""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from nescio.errors import DataError

HEADER_BYTES = 128  # of the .npy file; a number of rows of any length fits
DTYPES = {
    np.dtype("bool"): torch.bool,
    np.dtype("uint8"): torch.uint8,
    np.dtype("<i2"): torch.int16,
    np.dtype("<i4"): torch.int32,
    np.dtype("<i8"): torch.int64,
    np.dtype("<f2"): torch.float16,
    np.dtype("<f4"): torch.float32,
    np.dtype("<f8"): torch.float64,
}
NUMPY_DTYPES = {ours: theirs for theirs, ours in DTYPES.items()}


class RowReader(ABC):
    """Where the rows of a StoredArray come from.

    Attributes:
        shape: (N, ...), of all rows.
        dtype: Type of their values.
        fingerprint: A text that is another one where any row is; None where only the rows themselves tell.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    fingerprint: str | None = None
    are_finite: bool = False  # whether all rows were looked at and hold no NaN and no infinity

    @abstractmethod
    def read(self, positions: Sequence[int]) -> Tensor:
        """The rows at these positions, each from 0 to N - 1, as a new tensor (M, ...)."""


class FileRows(RowReader):
    """Rows one after the other in a file.

    Args:
        path: Path of the file.
        shape: (N, ...), of all rows.
        dtype: One of `DTYPES`.
        offset: Where in the file the first row begins, in bytes.
        fingerprint: Fingerprint of the rows, see RowReader.

    Raises:
        DataError: If the file is too short for that, or can't be opened.
    """

    def __init__(
        self,
        path: Path,
        shape: Sequence[int],
        dtype: torch.dtype,
        offset: int = 0,
        fingerprint: str | None = None,
    ) -> None:
        self.fingerprint = fingerprint
        self.path = path
        self.shape = tuple(shape)
        self.dtype = dtype
        self._offset = offset
        self._row_bytes = bytes_of_row(self.shape[1:], dtype)
        self._descriptor: int | None = None
        self._lock = threading.Lock()
        needed = offset + self.shape[0] * self._row_bytes
        found = os.fstat(self._opened()).st_size
        if found < needed:
            raise DataError(f"{path} is cut off: {needed:,} bytes expected, got {found:,}")

    def read(self, positions: Sequence[int]) -> Tensor:
        """Rows that follow each other in the file are read in one go."""
        rows = torch.empty((len(positions), *self.shape[1:]), dtype=self.dtype)
        if rows.numel() == 0:
            return rows
        target = memoryview(rows.numpy().reshape(-1).view(np.uint8).data)
        first = 0
        while first < len(positions):
            stop = first + 1
            while stop < len(positions) and positions[stop] == positions[stop - 1] + 1:
                stop += 1
            place = self._offset + positions[first] * self._row_bytes
            self._fill(target[first * self._row_bytes : stop * self._row_bytes], place)
            first = stop
        return rows

    def _fill(self, target: memoryview, place: int) -> None:
        filled = 0
        while filled < len(target):
            try:
                count = self._read_some(target[filled:], place + filled)
            except OSError as error:
                raise DataError(f"{self.path} can't be read: {error.strerror or error}") from error
            if count == 0:
                raise DataError(f"{self.path} was cut off while it was being read")
            filled += count

    def _read_some(self, target: memoryview, place: int) -> int:
        descriptor = self._opened()
        if hasattr(os, "preadv"):
            return os.preadv(descriptor, [target], place)
        with self._lock:  # threads share the file's position
            os.lseek(descriptor, place, os.SEEK_SET)
            found = os.read(descriptor, len(target))
        target[: len(found)] = found
        return len(found)

    def _opened(self) -> int:
        with self._lock:
            if self._descriptor is None:
                try:
                    self._descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
                except OSError as error:
                    raise DataError(f"{self.path} can't be opened: {error.strerror or error}") from error
                weakref.finalize(self, os.close, self._descriptor)
            return self._descriptor

    def __getstate__(self) -> dict[str, Any]:
        # Another process opens the file itself.
        return {**self.__dict__, "_descriptor": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()


def rows_of_npy(path: Path, file: IO[bytes], fingerprint: str | None = None) -> FileRows:
    """The rows of the .npy content that begins where a file is open.

    Raises:
        DataError: If it is none, or its values are not one of `DTYPES` row after row.
    """
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
        else:
            shape, by_columns, dtype = np.lib.format.read_array_header_2_0(file)
    except (ValueError, SyntaxError, EOFError) as error:
        raise DataError(f"{path} is no .npy file: {' '.join(str(error).split())}") from error
    if dtype not in DTYPES or len(shape) == 0 or (by_columns and len(shape) > 1):
        raise DataError(f"{path} can't be read row by row: it holds {dtype} {shape}")
    return FileRows(path, shape, DTYPES[dtype], file.tell(), fingerprint)


def npy_header(shape: tuple[int, ...], dtype: torch.dtype) -> bytes:
    """Of version 1, padded to a length that does not depend on the number of rows."""
    described = np.lib.format.dtype_to_descr(NUMPY_DTYPES[dtype])
    text = repr({"descr": described, "fortran_order": False, "shape": shape})
    magic = np.lib.format.magic(1, 0)
    room = HEADER_BYTES - len(magic) - 2
    return magic + room.to_bytes(2, "little") + text.encode().ljust(room - 1) + b"\n"


def bytes_of_row(shape: Sequence[int], dtype: torch.dtype) -> int:
    """Of a row of this shape, without the axis of the rows."""
    size = dtype.itemsize
    for length in shape:
        size *= length
    return size
