"""StoredArray: rows of one shape that lie on the disk and are read when they are asked for.

Rows are read by positioned reads into fresh tensors, not by a mapping: the pages of a mapping count as memory
of the process, and a limit on it would be met by data that only lies on the disk.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from nescio._files import write_atomically
from nescio._locks import one_at_a_time
from nescio.errors import DataError, InputError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
RESIDENT_BYTES = 256 * 2**20  # of inputs that are held in memory, by all processes of a training together
CHUNK_BYTES = 32 * 2**20  # of one part when all rows are gone through
FLUSH_BYTES = 64 * 2**20  # what an interrupted writing may lose
UNUSED_SECONDS = 30 * 24 * 3600  # after which a file of a cache is removed
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


class DiskFullError(DataError):
    """There is no room on the disk for what was to be kept there."""


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
        self._row_bytes = _bytes_of_row(self.shape[1:], dtype)
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


class ConvertedRows(RowReader):
    """Rows of another array in another form, made when they are read.

    Args:
        array: Where the rows come from.
        shape: Shape of one row in the new form.
        dtype: Type of its values.
        convert: A function from rows (M, ...) as they are to rows (M, *shape); one that can be pickled.
    """

    def __init__(
        self,
        array: StoredArray,
        shape: Sequence[int],
        dtype: torch.dtype,
        convert: Callable[[Tensor], Tensor],
    ) -> None:
        self.shape = (len(array), *shape)
        self.dtype = dtype
        self._array = array
        self._convert = convert
        known = array.fingerprint()
        if known is not None:
            self.fingerprint = f"{known} {convert.__name__}"

    def read(self, positions: Sequence[int]) -> Tensor:
        """Read and convert them."""
        return self._convert(self._array[positions])


class StoredArray:
    """Rows of one shape and type that lie on the disk: what is indexed is read, and nothing is kept.

    It has what a training needs of a tensor: a length, a shape, a type, and rows by their positions.

    Args:
        rows: Where the rows come from.
        index: Which of them, and in which order, int64 (N,); None for all. Several arrays share one file so.

    Raises:
        InputError: If the index is not within the rows.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> stored = StoredArray.write(Path(folder.name, "rows.npy"), torch.arange(6.0).view(3, 2))
        >>> stored
        StoredArray(float32 (3, 2))
        >>> stored[torch.tensor([2, 0])]
        tensor([[4., 5.],
                [0., 1.]])
        >>> stored.select(torch.tensor([True, False, True]))  # reads nothing
        StoredArray(float32 (2, 2))
        >>> folder.cleanup()
    """

    def __init__(self, rows: RowReader, index: Tensor | None = None) -> None:
        self._rows = rows
        self._index = index
        if index is not None:
            if index.dtype != torch.int64 or index.ndim != 1:
                raise InputError(f"index must be int64 (N,), got {index.dtype} {tuple(index.shape)}")
            if len(index) and not 0 <= int(index.min()) <= int(index.max()) < rows.shape[0]:
                raise InputError(f"index must be within {rows.shape[0]} rows, got {int(index.max())}")

    @classmethod
    def open(cls, path: Path, fingerprint: str | None = None, *, is_temporary: bool = False) -> StoredArray:
        """The array of an .npy file.

        Args:
            path: Path of the file.
            fingerprint: A text that is another one where any row is; None where only the rows tell.
            is_temporary: Whether the file is removed when nothing of this process uses it any more.

        Raises:
            DataError: If it is none, or one that can't be read row by row.
        """
        try:
            with path.open("rb") as file:
                rows = rows_of_npy(path, file, fingerprint)
        except OSError as error:
            raise DataError(f"{path} can't be opened: {error.strerror or error}") from error
        if is_temporary:
            weakref.finalize(rows, _remove, path)
        return cls(rows)

    @classmethod
    def write(cls, path: Path, rows: Tensor) -> StoredArray:
        """Keep a tensor as an .npy file.

        Args:
            path: Path of the file.
            rows: (N, ...).

        Raises:
            DiskFullError: If there is no room for it.
        """
        with StoredArrayWriter(path, tuple(rows.shape[1:]), rows.dtype) as writer:
            writer.append(rows)
            return writer.finish()

    def __len__(self) -> int:
        return self._rows.shape[0] if self._index is None else len(self._index)

    @property
    def shape(self) -> torch.Size:
        """(N, ...)."""
        return torch.Size((len(self), *self._rows.shape[1:]))

    @property
    def ndim(self) -> int:
        """How many axes there are, the rows counted."""
        return len(self._rows.shape)

    @property
    def dtype(self) -> torch.dtype:
        """Of the values."""
        return self._rows.dtype

    @property
    def nbytes(self) -> int:
        """What all rows would need in memory."""
        return len(self) * _bytes_of_row(self._rows.shape[1:], self.dtype)

    def is_floating_point(self) -> bool:
        """Whether the values are floating point numbers."""
        return self.dtype.is_floating_point

    def is_finite(self) -> bool:
        """Whether no value is NaN or infinite; once all rows were looked at, their selections are known."""
        if not self.is_floating_point() or self._rows.are_finite:
            return True
        for part in self.chunks():
            if not part.isfinite().all():
                return False
        if self._index is None:
            self._rows.are_finite = True
        return True

    def __getitem__(self, index: Tensor | Sequence[int] | slice | int) -> Tensor:
        """Read rows: a position gives one (...), all else several (M, ...)."""
        if isinstance(index, int | np.integer):
            position = range(len(self))[index]  # which raises IndexError, and counts from the end
            return self._read(torch.tensor([position]))[0]
        if isinstance(index, slice):
            return self._read(torch.arange(len(self))[index])
        return self._read(_positions(index, len(self)))

    def __iter__(self) -> Iterator[Tensor]:
        for part in self.chunks():
            yield from part

    def select(self, index: Tensor) -> StoredArray:
        """The rows at these positions (M,), or where a mask (N,) is true; nothing is read."""
        positions = _positions(index, len(self))
        return StoredArray(self._rows, positions if self._index is None else self._index[positions])

    def fingerprint(self) -> str | None:
        """A text that is another one where any row is; None where only the rows themselves tell."""
        if self._rows.fingerprint is None:
            return None
        if self._index is None:
            return self._rows.fingerprint
        index = hashlib.sha256(self._index.contiguous().numpy().data).hexdigest()
        return f"{self._rows.fingerprint} {index}"

    def chunks(self, rows: int | None = None) -> Iterator[Tensor]:
        """All rows in their order, some at a time: (rows, ...), the last part maybe shorter.

        Args:
            rows: How many at a time; None for as many as are about 32 MB.
        """
        if rows is None:
            rows = max(1, CHUNK_BYTES // _bytes_of_row(self._rows.shape[1:], self.dtype))
        for first in range(0, len(self), rows):
            yield self[first : first + rows]

    def __repr__(self) -> str:
        return f"StoredArray({str(self.dtype).removeprefix('torch.')} {tuple(self.shape)})"

    def _read(self, positions: Tensor) -> Tensor:
        if self._index is not None:
            positions = self._index[positions]
        return self._rows.read(positions.tolist())


def is_resident(nbytes: int) -> bool:
    """Whether inputs of so many bytes are held in memory, rather than on the disk.

    The processes that torchrun has started on this machine share the memory: each would hold all inputs, and
    read only its part of every batch.
    """
    processes_here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return nbytes * processes_here <= RESIDENT_BYTES


def select_rows(inputs: Tensor | StoredArray, index: Tensor) -> Tensor | StoredArray:
    """The rows at these positions (M,) or of this mask (N,); of a stored array nothing is read or copied."""
    return inputs.select(index) if isinstance(inputs, StoredArray) else inputs[index]


def as_float32(inputs: Tensor | StoredArray) -> Tensor | StoredArray:
    """The same numbers in float32; what that can't hold becomes infinite. Stored ones become so when read."""
    if isinstance(inputs, Tensor):
        return inputs.float()
    return StoredArray(ConvertedRows(inputs, inputs.shape[1:], torch.float32, Tensor.float))


def row_chunks(inputs: Tensor | StoredArray, rows: int | None = None) -> Iterator[Tensor]:
    """All rows in their order, some at a time; rows: how many, None for as many as are about 32 MB."""
    if isinstance(inputs, StoredArray):
        yield from inputs.chunks(rows)
        return
    if rows is None:
        row_bytes = _bytes_of_row(tuple(inputs.shape[1:]), inputs.dtype)
        rows = max(1, CHUNK_BYTES // max(1, row_bytes))
    yield from torch.split(inputs, rows)


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
        if len(_npy_header((10**15, *shape), dtype)) != HEADER_BYTES:
            raise InputError(f"a row has too many axes to be stored, got {tuple(shape)}")
        self.path = path
        self.count = 0
        self.notes: dict[str, Any] = {}
        self._shape = tuple(shape)
        self._dtype = dtype
        self._row_bytes = _bytes_of_row(self._shape, dtype)
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

    def finish(self) -> StoredArray:
        """Move the file into place and open it."""
        with self._explaining():
            self._file.flush()
            self._file.close()
            with self._aside.open("r+b") as file:
                file.write(_npy_header((self.count, *self._shape), self._dtype))
                file.flush()
                os.fsync(file.fileno())
            write_atomically(notes_path(self.path), json.dumps(self.notes).encode())
            os.replace(self._aside, self.path)
            self._record.unlink(missing_ok=True)
        return StoredArray.open(self.path)

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


def stored_once(
    path: Path,
    shape: Sequence[int],
    dtype: torch.dtype,
    fill: Callable[[StoredArrayWriter], None],
    on_wait: Callable[[str], None],
) -> StoredArray:
    """The stored array at a path, written where it is not there yet: of several processes, by one.

    Args:
        path: Path of the file; what its content depends on must be part of its name.
        shape: Shape of one row.
        dtype: Type of the values.
        fill: Appends the rows from `writer.count` on.
        on_wait: Function that is called, before waiting, with who is writing it where another process is.

    Raises:
        DiskFullError: If there is no room; nothing is left behind then.
        DataError: If the folder can't be written.
    """
    if not path.is_file():
        try:
            with one_at_a_time(path.with_name(f".{path.name}.lock"), on_wait):
                if not path.is_file():  # another process may have been faster
                    _forget_unused(path.parent)
                    with StoredArrayWriter(path, shape, dtype) as writer:
                        fill(writer)
                        writer.finish()
        except OSError as error:
            raise not_written(path.parent, error) from error
    with contextlib.suppress(OSError):
        os.utime(path)  # it is used
    return StoredArray.open(path, path.name)


def _forget_unused(folder: Path) -> None:
    """Remove what was written and not used for long, whole or interrupted."""
    for path in (*folder.glob("*.npy"), *folder.glob(".*.npy.part")):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > UNUSED_SECONDS:
                _remove(path)


def _remove(path: Path) -> None:
    for former in (path, notes_path(path)):
        with contextlib.suppress(OSError):
            former.unlink(missing_ok=True)


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


def _positions(index: Tensor | Sequence[int], count: int) -> Tensor:
    """Positions from 0 on (M,), of positions that may count from the end, or of a mask (N,)."""
    positions = torch.as_tensor(index)
    if positions.numel() == 0 and positions.dtype != torch.bool:
        positions = positions.long()
    if positions.ndim != 1 or positions.is_floating_point():
        raise InputError(f"index must be whole numbers (M,) or a mask (N,), got {tuple(positions.shape)}")
    if positions.dtype == torch.bool:
        if len(positions) != count:
            raise InputError(f"a mask must have {count} values, got {len(positions)}")
        return positions.nonzero().flatten()
    positions = positions.long().cpu()
    if len(positions) and not -count <= int(positions.min()) <= int(positions.max()) < count:
        found = f"{int(positions.min())} to {int(positions.max())}"
        raise IndexError(f"index must be within {count} rows, got {found}")
    return torch.where(positions < 0, positions + count, positions)


def _bytes_of_row(shape: Sequence[int], dtype: torch.dtype) -> int:
    size = dtype.itemsize
    for length in shape:
        size *= length
    return size


def _npy_header(shape: tuple[int, ...], dtype: torch.dtype) -> bytes:
    """Of version 1, padded to a length that does not depend on the number of rows."""
    described = np.lib.format.dtype_to_descr(NUMPY_DTYPES[dtype])
    text = repr({"descr": described, "fortran_order": False, "shape": shape})
    magic = np.lib.format.magic(1, 0)
    room = HEADER_BYTES - len(magic) - 2
    return magic + room.to_bytes(2, "little") + text.encode().ljust(room - 1) + b"\n"
