"""StoredArrayWriter: writes rows to the disk so that an interruption loses little and a full disk nothing."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from nescio._files import write_atomically
from nescio.data._npy_rows import HEADER_BYTES, NUMPY_DTYPES, bytes_of_row, npy_header
from nescio.errors import DataError, InputError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FLUSH_BYTES = 64 * 2**20  # what an interrupted writing may lose


class DiskFullError(DataError):
    """There is no room on the disk for what was to be kept there."""


class StoredArrayWriter:
    """Writes an .npy file row by row; at any moment its path holds nothing or all of it.

    Until it is finished, the rows are in a file aside. Interrupted, that file stays, and the next writer with
    the same path goes on behind the rows that are safely on the disk. On a full disk it is removed.

    Args:
        path: Path of the file to be; what its content depends on should be part of its name.
        shape: Shape of one row.
        dtype: Type of the values, one of `DTYPES`.

    Attributes:
        count: How many rows there are already: what an interrupted writing left, and what was appended.
        notes: Plain data to keep with the rows, in path.json; as it was at the last flush, after an
            interruption.

    Raises:
        DiskFullError: If there is no room.
        DataError: If the file can't be written.
    """

    def __init__(self, path: Path, shape: Sequence[int], dtype: torch.dtype) -> None:
        if dtype not in NUMPY_DTYPES:
            known = ", ".join(str(one).removeprefix("torch.") for one in NUMPY_DTYPES)
            raise InputError(f"dtype must be one of {known}, got {dtype}")
        if len(npy_header((10**15, *shape), dtype)) != HEADER_BYTES:
            raise InputError(f"a row has too many axes to be stored, got {tuple(shape)}")
        self.path = path
        self.count = 0
        self.notes: dict[str, Any] = {}
        self._shape = tuple(shape)
        self._dtype = dtype
        self._row_bytes = bytes_of_row(self._shape, dtype)
        self._aside = path.with_name(f".{path.name}.part")
        self._record = path.with_name(f".{path.name}.part.json")
        self._unsafe = 0  # bytes that were written since the last flush
        with self._explaining():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._resumed()

    def _resumed(self) -> IO[bytes]:
        """The file aside, cut behind the rows that are known to be on the disk."""
        file = self._aside.open("ab")
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            record = json.loads(self._record.read_text("utf-8"))
            rows = int(record["rows"])
            is_of_us = record["shape"] == list(self._shape) and record["dtype"] == str(self._dtype)
            if is_of_us and file.tell() >= HEADER_BYTES + rows * self._row_bytes:
                self.count = rows
                self.notes = dict(record["notes"])
        file.truncate(HEADER_BYTES + self.count * self._row_bytes)
        return file

    def __enter__(self) -> StoredArrayWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._file.close()

    def append(self, rows: Tensor) -> None:
        """Write rows (M, *shape) behind those that are there."""
        if rows.dtype != self._dtype or tuple(rows.shape[1:]) != self._shape:
            found = f"{rows.dtype} {tuple(rows.shape)}"
            raise InputError(
                f"rows must be {self._dtype} (N, {', '.join(map(str, self._shape))}), got {found}"
            )
        content = rows.detach().cpu().contiguous().numpy()
        with self._explaining():
            self._file.write(content.reshape(-1).view(np.uint8).data)
        self.count += len(rows)
        self._unsafe += content.nbytes
        if self._unsafe >= FLUSH_BYTES:
            self.flush()

    def restart(self) -> None:
        """Begin anew, without what an interrupted writing left."""
        with self._explaining():
            self._record.unlink(missing_ok=True)
            self._file.seek(0)
            self._file.truncate(HEADER_BYTES)
        self.count = 0
        self.notes = {}

    def flush(self) -> None:
        """Bring all rows and the notes to the disk: an interruption from here on does not lose them."""
        record = {
            "rows": self.count,
            "shape": list(self._shape),
            "dtype": str(self._dtype),
            "notes": self.notes,
        }
        with self._explaining():
            self._file.flush()
            os.fsync(self._file.fileno())
            write_atomically(self._record, json.dumps(record).encode())
        self._unsafe = 0

    def finish(self) -> None:
        """Move the file into place."""
        with self._explaining():
            self._file.flush()
            self._file.close()
            with self._aside.open("r+b") as file:
                file.write(npy_header((self.count, *self._shape), self._dtype))
                file.flush()
                os.fsync(file.fileno())
            write_atomically(notes_path(self.path), json.dumps(self.notes).encode())
            os.replace(self._aside, self.path)
            self._record.unlink(missing_ok=True)

    def discard(self) -> None:
        """Leave nothing behind."""
        with contextlib.suppress(OSError, AttributeError):
            self._file.close()
        for path in (self._aside, self._record):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        if not self.path.exists():
            with contextlib.suppress(OSError):
                notes_path(self.path).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        """Say plainly what the disk refuses; where it is full, take nothing of it."""
        try:
            yield
        except OSError as error:
            if error.errno in NO_ROOM:
                written = self.count * self._row_bytes
                self.discard()
                raise no_room(self.path.parent, written) from error
            raise not_written(self.path.parent, error) from error


def notes_path(path: Path) -> Path:
    """Where the notes of a stored array are."""
    return path.with_name(f"{path.name}.json")


def read_notes(path: Path) -> Mapping[str, Any]:
    """The notes that were kept with a stored array.

    Raises:
        DataError: If they are damaged.
    """
    try:
        notes = json.loads(notes_path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{notes_path(path)} is damaged: {error}; remove it and {path.name}") from error
    if not isinstance(notes, dict):
        raise DataError(f"{notes_path(path)} is damaged: no table; remove it and {path.name}")
    return notes


def remove_stored(path: Path) -> None:
    """Remove a stored array and its notes, where they are."""
    for former in (path, notes_path(path)):
        with contextlib.suppress(OSError):
            former.unlink(missing_ok=True)


def free_bytes(folder: Path) -> int:
    """How much room there is on the disk of a folder, or of the one it will be in."""
    present = next(place for place in (folder, *folder.resolve().parents) if place.exists())
    return shutil.disk_usage(present).free


def no_room(folder: Path, needed: int) -> DiskFullError:
    """The error for a disk without room; needed: how many bytes, at least."""
    free = free_bytes(folder) / 1e6
    return DiskFullError(
        f"no room on the disk: more than {needed / 1e6:,.0f} MB are needed in {folder}, {free:,.0f} MB are "
        "free; make room or set NESCIO_CACHE to another folder"
    )


def not_written(folder: Path, error: OSError) -> DataError:
    """The error for a folder that takes no files."""
    return DataError(
        f"the cache folder {folder} can't be written: {error.strerror or error}; "
        "set NESCIO_CACHE to another folder"
    )
