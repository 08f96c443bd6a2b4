"""From verified files to arrays, and back: the idx format and CIFAR's binary format."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor

from evidentia.errors import DataError

IDX_UNSIGNED_BYTE = 8
CIFAR_SHAPE = (3, 32, 32)
CIFAR_PIXELS = 3 * 32 * 32


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


def idx_bytes(array: np.ndarray) -> bytes:
    """A uint8 array in the idx format."""
    header = struct.pack(">HBB", 0, IDX_UNSIGNED_BYTE, array.ndim)
    return header + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def read_cifar(paths: list[Path]) -> tuple[Tensor, Tensor]:
    """CIFAR-10 binary files, as images uint8 (N, 3, 32, 32) and labels int64 (N,)."""
    rows = [_cifar_rows(path) for path in paths]
    total = sum(len(part) for part in rows)
    images = torch.empty((total, *CIFAR_SHAPE), dtype=torch.uint8)
    labels = torch.empty(total, dtype=torch.int64)
    pixels, start = images.view(total, CIFAR_PIXELS).numpy(), 0
    for part in rows:
        pixels[start : start + len(part)] = part[:, 1:]
        labels.numpy()[start : start + len(part)] = part[:, 0]
        start += len(part)
    return images, labels


def _cifar_rows(path: Path) -> np.ndarray:
    # Mapped, not read: the pixels are copied once, into their place.
    size = path.stat().st_size
    if size == 0 or size % (1 + CIFAR_PIXELS):
        raise DataError(f"{path.name}: {size} bytes is not a whole number of CIFAR-10 images")
    return np.memmap(path, dtype=np.uint8, mode="r").reshape(-1, 1 + CIFAR_PIXELS)
