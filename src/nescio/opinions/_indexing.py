"""An index of predictions: what Opinion and Categorical have in common."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def at_batch_index(values: Tensor, index: Any) -> Tensor:
    """The values (..., K) of the inputs at an index, as numpy has it: (*chosen, K)."""
    # The index is put to the batch axes alone: it can't reach the classes, however it is written.
    batch = values.shape[:-1]
    chosen = torch.arange(batch.numel(), device=values.device).view(batch)[index]
    return values.reshape(-1, values.shape[-1])[chosen]
