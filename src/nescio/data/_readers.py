"""From verified files to tensors."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor

from nescio._fetch.formats import CIFAR_PIXELS, CIFAR_ROW, CIFAR_SHAPE, IDX_UNSIGNED_BYTE
from nescio.errors import DataError

CIFAR_ROWS_AT_ONCE = 256


def read_idx(path: Path, dimensions: int) -> Tensor:
    """An idx file of unsigned bytes with so many dimensions, as uint8."""
    with path.open("rb") as file:
        header = file.read(4 + 4 * dimensions)
        if len(header) != 4 + 4 * dimensions:
            raise DataError(f"{path.name}: too short for an idx file ({len(header)} bytes)")
        magic = struct.unpack(">I", header[:4])[0]
        expected = IDX_UNSIGNED_BYTE << 8 | dimensions
        if magic != expected:
            raise DataError(f"{path.name}: idx magic number must be {expected}, got {magic}")
        shape = struct.unpack(f">{dimensions}I", header[4:])
        size = int(np.prod(shape, dtype=np.int64))
        values = _read_bytes(file, size, path)
    return torch.from_numpy(values.reshape(shape))


def read_idx_pair(paths: list[Path]) -> tuple[Tensor, Tensor]:
    """Two idx files, as images uint8 (N, 1, H, W) and labels int64 (N,)."""
    images, labels = paths
    return read_idx(images, dimensions=3).unsqueeze(1), read_idx(labels, dimensions=1).long()


def _read_bytes(file: IO[bytes], size: int, path: Path) -> np.ndarray:
    # Compare with the file before allocating: a damaged header may claim any size.
    present = path.stat().st_size - file.tell()
    if present != size:
        raise DataError(f"{path.name}: the header promises {size} bytes, the file holds {present}")
    return np.fromfile(file, dtype=np.uint8, count=size)


def read_cifar(paths: list[Path]) -> tuple[Tensor, Tensor]:
    """CIFAR-10 binary files, as images uint8 (N, 3, 32, 32) and labels int64 (N,)."""
    counts = [_cifar_count(path) for path in paths]
    # numpy asks for huge pages where torch does not: half the time goes into touching new memory.
    images = np.empty((sum(counts), CIFAR_PIXELS), np.uint8)
    labels = np.empty(sum(counts), np.int64)
    start = 0
    for path, count in zip(paths, counts, strict=True):
        _read_cifar_rows(path, images[start : start + count], labels[start : start + count])
        start += count
    return torch.from_numpy(images).view(-1, *CIFAR_SHAPE), torch.from_numpy(labels)


def _cifar_count(path: Path) -> int:
    count, rest = divmod(path.stat().st_size, CIFAR_ROW)
    if count == 0 or rest:
        raise DataError(f"{path.name}: {path.stat().st_size} bytes is not a whole number of CIFAR-10 images")
    return count


def _read_cifar_rows(path: Path, images: np.ndarray, labels: np.ndarray) -> None:
    # A few rows at a time stay in the processor's cache between reading and taking them apart.
    rows = np.empty((CIFAR_ROWS_AT_ONCE, CIFAR_ROW), np.uint8)
    with path.open("rb", buffering=0) as file:
        for start in range(0, len(labels), CIFAR_ROWS_AT_ONCE):
            count = file.readinto(rows.data) // CIFAR_ROW
            labels[start : start + count] = rows[:count, 0]
            images[start : start + count] = rows[:count, 1:]
