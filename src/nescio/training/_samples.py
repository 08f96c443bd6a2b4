"""Samples: what a training learns from."""

from __future__ import annotations

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
            fast case; of those on the disk, each batch is read.
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

    @cached_property
    def input_range(self) -> Tensor:
        """From the least to the greatest input in each channel (C,)."""
        return input_range_of(self.inputs)

    @property
    def total_weight(self) -> float:
        """The sum of the weights; the number of samples where there are none."""
        if self.weights is None:
            return float(len(self))
        return float(self.weights.sum())

    def take(self, index: Tensor) -> Samples:
        """The samples at these positions (M,), in memory."""
        weights = None
        if self.weights is not None:
            weights = self.weights[index]
        return Samples(self.inputs[index], self.labels[index], weights)
