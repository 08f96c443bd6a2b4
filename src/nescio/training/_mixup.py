"""Mixup: a batch of pairs of samples, mixed, with labels that are mixed alike."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from nescio.methods import Batch

LARGEST_SEED = 2**62


def draw_share(alpha: float, generator: torch.Generator) -> float:
    """How much of each sample is kept in a batch: from a Beta distribution with both parameters alpha."""
    # torch draws no Beta from a generator of one's own.
    seed = int(torch.randint(LARGEST_SEED, (), generator=generator))
    return float(np.random.default_rng(seed).beta(alpha, alpha))


def mixed(batch: Batch, share: float, num_classes: int) -> Batch:
    """share times each sample plus the rest of the one before it in the batch; labels become (N, K).

    Weights are mixed alike.
    """
    labels = one_hot(batch.labels, num_classes).to(batch.inputs.dtype)
    weights = None
    if batch.weights is not None:
        weights = _with_neighbour(batch.weights, share)
    return batch._replace(
        inputs=_with_neighbour(batch.inputs, share), labels=_with_neighbour(labels, share), weights=weights
    )


def _with_neighbour(values: Tensor, share: float) -> Tensor:
    return share * values + (1 - share) * values.roll(1, 0)
