"""Where float64 exists: some devices (Apple's MPS) have none, and what is computed there stays in float32.

NESCIO_NO_FLOAT64=1 makes the library treat every device so, which is how it is tested without such a device.
"""

from __future__ import annotations

import os

import torch
from torch import Tensor

_WITHOUT_FLOAT64 = frozenset({"mps"})  # types of devices
no_float64_anywhere = os.environ.get("NESCIO_NO_FLOAT64") == "1"


def has_float64(device: torch.device) -> bool:
    """Whether tensors of float64 may be made on this device."""
    return not no_float64_anywhere and device.type not in _WITHOUT_FLOAT64


def wide_type(device: torch.device) -> torch.dtype:
    """The widest floating type of a device."""
    return torch.float64 if has_float64(device) else torch.float32


def widest(tensor: Tensor) -> Tensor:
    """A tensor in float64 where its device has that, else in float32; float64 stays what it is."""
    if tensor.dtype == torch.float64:
        return tensor
    return tensor.to(wide_type(tensor.device))


def to_float64(tensor: Tensor) -> Tensor:
    """A tensor in float64, on the CPU if its device has none: for what is done once, after a training."""
    if not has_float64(tensor.device):
        tensor = tensor.cpu()
    return tensor.double()


def two_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """a + b as it is rounded, and exactly what the rounding left out."""
    total = a + b
    of_b = total - a
    of_a = total - of_b
    return total, (a - of_a) + (b - of_b)


def row_sum_pair(x: Tensor) -> tuple[Tensor, Tensor]:
    """The sums of rows (M, K) as pairs of numbers (M,) that are to be added: twice the digits of one."""
    high = x
    low = torch.zeros_like(x)
    while high.shape[1] > 1:
        half = (high.shape[1] + 1) // 2
        missing = 2 * half - high.shape[1]
        upper = torch.nn.functional.pad(high[:, half:], (0, missing))
        upper_low = torch.nn.functional.pad(low[:, half:], (0, missing))
        high, error = two_sum(high[:, :half], upper)
        low = low[:, :half] + upper_low + error
    return two_sum(high[:, 0], low[:, 0])
