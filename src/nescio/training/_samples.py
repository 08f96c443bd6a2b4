"""Samples: what a training learns from, in memory or on the disk."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from nescio.data import StoredArray
from nescio.data.preprocess import input_range_of
from nescio.errors import DataError


@dataclass(frozen=True)
class Samples:
    """Inputs with their labels.

    Args:
        inputs: Raw inputs (N, ...), of any type: images (N, C, H, W) or rows (N, F). Those in memory are the
            fast case; those on the disk are read batch by batch, while the batch before is computed.
        labels: Class indices (N,), int64.
        weights: How much each sample counts (N,), or None if all count alike.

    Raises:
        DataError: If there are no samples, or not as many labels as inputs.

    Example:
        >>> import torch
        >>> samples = Samples(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1]))
        >>> len(samples), samples.total_weight
        (4, 4.0)
        >>> samples.take(torch.tensor([1, 3])).labels
        tensor([1, 1])
    """

    inputs: Tensor | StoredArray
    labels: Tensor
    weights: Tensor | None = None

    def __post_init__(self) -> None:
        if not len(self.inputs) == len(self.labels) > 0:
            raise DataError(
                f"a training needs samples, got {len(self.inputs)} with {len(self.labels)} labels"
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def is_resident(self) -> bool:
        """Whether the inputs are in memory."""
        return isinstance(self.inputs, Tensor)

    @property
    def readers(self) -> int:
        """Threads that read batches ahead: as many as stored inputs say that they need, none in memory."""
        if self.is_resident:
            return 0
        return int(getattr(self.inputs, "readers", 1))

    @property
    def input_size(self) -> int:
        """Numbers of one input."""
        return math.prod(self.inputs.shape[1:])

    @cached_property
    def input_range(self) -> Tensor:
        """From the least to the greatest input in each channel (C,); stored inputs are read once for it."""
        return input_range_of(self.inputs)

    @property
    def total_weight(self) -> float:
        """The sum of the weights; the number of samples where there are none."""
        if self.weights is None:
            return float(len(self))
        return float(self.weights.sum())

    def weight_at(self, index: Tensor) -> float:
        """The sum of the weights at these positions (M,); no input is read."""
        if self.weights is None:
            return float(len(index))
        return float(self.weights[index].sum())

    def read(self) -> Tensor:
        """All inputs, in memory."""
        if isinstance(self.inputs, Tensor):
            return self.inputs
        return self.inputs[:]

    def take(self, index: Tensor) -> Samples:
        """The samples at these positions (M,), in memory."""
        weights = None
        if self.weights is not None:
            weights = self.weights[index]
        return Samples(self.inputs[index], self.labels[index], weights)
