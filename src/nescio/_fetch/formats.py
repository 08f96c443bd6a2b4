"""The layout of the files that are kept: the idx format and CIFAR's binary format."""

from __future__ import annotations

import struct

import numpy as np

IDX_UNSIGNED_BYTE = 8
CIFAR_SHAPE = (3, 32, 32)
CIFAR_PIXELS = 3 * 32 * 32
CIFAR_ROW = 1 + CIFAR_PIXELS


def idx_bytes(array: np.ndarray) -> bytes:
    """A uint8 array in the idx format."""
    header = struct.pack(">HBB", 0, IDX_UNSIGNED_BYTE, array.ndim)
    return header + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
