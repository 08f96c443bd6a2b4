"""StoredArray: rows of one shape that lie on the disk and are read when they are asked for."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nescio._locks import one_at_a_time
from nescio.data._npy_rows import RowReader, bytes_of_row, rows_of_npy
from nescio.data._row_writer import StoredArrayWriter, not_written, remove_stored
from nescio.errors import DataError, InputError

RESIDENT_BYTES = 256 * 2**20  # of inputs that are held in memory, by all processes of a training together
CHUNK_BYTES = 32 * 2**20  # of one part when all rows are gone through
UNUSED_SECONDS = 30 * 24 * 3600  # after which a file of a cache is removed


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
            weakref.finalize(rows, remove_stored, path)
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
            writer.finish()
        return cls.open(path)

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
        return len(self) * bytes_of_row(self._rows.shape[1:], self.dtype)

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
            rows = max(1, CHUNK_BYTES // bytes_of_row(self._rows.shape[1:], self.dtype))
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
        row_bytes = bytes_of_row(tuple(inputs.shape[1:]), inputs.dtype)
        rows = max(1, CHUNK_BYTES // max(1, row_bytes))
    yield from torch.split(inputs, rows)


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
        writer = None
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(one_at_a_time(path.with_name(f".{path.name}.lock"), on_wait))
                if not path.is_file():  # another process may have been faster
                    _forget_unused(path.parent)
                    writer = stack.enter_context(StoredArrayWriter(path, shape, dtype))
            except OSError as error:
                raise not_written(path.parent, error) from error
            if writer is not None:
                fill(writer)  # whose errors are those of the data, not of the cache
                writer.finish()
    with contextlib.suppress(OSError):
        os.utime(path)  # it is used
    return StoredArray.open(path, path.name)


def _forget_unused(folder: Path) -> None:
    """Remove what was written and not used for long, whole or interrupted."""
    for path in (*folder.glob("*.npy"), *folder.glob(".*.npy.part")):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > UNUSED_SECONDS:
                remove_stored(path)


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
