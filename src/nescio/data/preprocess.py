"""Standardize: raw inputs to what a network learns well from.

Rows of numbers get zero mean and unit spread a column. Images get the range from 0 to 1 and keep their zero:
where nothing is in the picture the network is fed nothing, and finds evidence only in what is there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nescio.errors import InputError

CONSTANT = 1e-12  # a spread below this part of the mean is rounding


@dataclass(frozen=True)
class Standardize:
    """(x - mean) / scale along axis 1: a channel of images (N, C, H, W), a column of rows (N, F)."""

    mean: tuple[float, ...]
    scale: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", tuple(float(value) for value in self.mean))
        object.__setattr__(self, "scale", tuple(float(value) for value in self.scale))
        if len(self.mean) != len(self.scale) or not all(0 < value < float("inf") for value in self.scale):
            raise InputError(f"scale must be one positive number for each mean, got {self.scale}")
        if not all(math.isfinite(value) for value in self.mean):
            raise InputError(f"mean must be finite numbers, got {self.mean}")

    @classmethod
    def fit(cls, inputs: Tensor, weights: Tensor | None = None) -> Standardize:
        """From training images (N, C, H, W), or rows (N, F) weighted by (N,); constants stay as they are."""
        if inputs.ndim == 4:
            return cls._of_range(inputs)
        share = torch.ones(len(inputs)) if weights is None else weights
        share = share.double() / share.sum()
        mean = _mean_of(inputs, share, torch.zeros(inputs.shape[1], dtype=torch.float64), power=1)
        scale = _mean_of(inputs, share, mean, power=2).sqrt()
        scale = torch.where(scale > CONSTANT * mean.abs().clamp_min(1), scale, 1.0)
        return cls(tuple(mean.tolist()), tuple(scale.tolist()))

    @classmethod
    def _of_range(cls, images: Tensor) -> Standardize:
        """255 for bytes, else the greatest absolute value; one for all channels, to keep colours."""
        greatest = 255.0 if images.dtype == torch.uint8 else float(images.abs().max())
        channels = images.shape[1]
        return cls((0.0,) * channels, (greatest or 1.0,) * channels)

    def __call__(self, inputs: Tensor) -> Tensor:
        """(N, C, ...) in float64 if the inputs are, else in float32."""
        wide = inputs if inputs.dtype in (torch.float32, torch.float64) else inputs.float()
        shape = (1, -1) + (1,) * (inputs.ndim - 2)
        mean, scale = (wide.new_tensor(values).view(shape) for values in (self.mean, self.scale))
        return (wide - mean) / scale

    def input_range(self, raw: Tensor) -> Tensor:
        """A span (C,) of raw inputs, see `input_range_of`, as one of standardised inputs."""
        return raw / raw.new_tensor(self.scale)


def input_range_of(inputs: Tensor) -> Tensor:
    """From the least to the greatest value in each channel of (N, C, ...), (C,), in floating point."""
    axes = [axis for axis in range(inputs.ndim) if axis != 1]
    least, greatest = inputs.amin(axes), inputs.amax(axes)
    return greatest - least if inputs.is_floating_point() else greatest.float() - least.float()


def _mean_of(inputs: Tensor, share: Tensor, center: Tensor, power: int) -> Tensor:
    """Weighted mean of (x - center)^power for each channel (C,), a part of the samples at a time."""
    total = torch.zeros_like(center)
    for part, weight in zip(torch.split(inputs, 4096), torch.split(share, 4096), strict=True):
        values = (part.flatten(2) if part.ndim > 2 else part.unsqueeze(2)).double()  # (n, C, pixels)
        total += torch.einsum("ncp,n->c", (values - center.view(1, -1, 1)) ** power, weight) / values.shape[2]
    return total
