"""Standardize: raw inputs to what a network learns well from, zero mean and unit scale a channel."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from evidentia.errors import InputError

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

    @classmethod
    def fit(cls, inputs: Tensor, weights: Tensor | None = None) -> Standardize:
        """From training inputs (N, C, ...), weighted by (N,); what never changes is left at scale one."""
        share = torch.ones(len(inputs)) if weights is None else weights
        share = share.double() / share.sum()
        mean = _mean_of(inputs, share, torch.zeros(inputs.shape[1], dtype=torch.float64), power=1)
        scale = _mean_of(inputs, share, mean, power=2).sqrt()
        scale = torch.where(scale > CONSTANT * mean.abs().clamp_min(1), scale, 1.0)
        return cls(tuple(mean.tolist()), tuple(scale.tolist()))

    def __call__(self, inputs: Tensor) -> Tensor:
        """(N, C, ...) in float64 if the inputs are, else in float32."""
        wide = inputs if inputs.dtype in (torch.float32, torch.float64) else inputs.float()
        shape = (1, -1) + (1,) * (inputs.ndim - 2)
        mean, scale = (wide.new_tensor(values).view(shape) for values in (self.mean, self.scale))
        return (wide - mean) / scale


def _mean_of(inputs: Tensor, share: Tensor, center: Tensor, power: int) -> Tensor:
    """Weighted mean of (x - center)^power for each channel (C,), a part of the samples at a time."""
    total = torch.zeros_like(center)
    for part, weight in zip(torch.split(inputs, 4096), torch.split(share, 4096), strict=True):
        values = (part.flatten(2) if part.ndim > 2 else part.unsqueeze(2)).double()  # (n, C, pixels)
        total += torch.einsum("ncp,n->c", (values - center.view(1, -1, 1)) ** power, weight) / values.shape[2]
    return total
