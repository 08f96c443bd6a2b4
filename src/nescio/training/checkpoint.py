"""Checkpoints: the optimiser's state between two epochs as named tensors, and back."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def pack_optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Its state as named tensors."""
    states = optimizer.state_dict()["state"].items()
    return {
        f"{index}.{name}": torch.as_tensor(value) for index, held in states for name, value in held.items()
    }


def unpack_optimizer(tensors: Mapping[str, Tensor], optimizer: torch.optim.Optimizer) -> None:
    """Put its state back; nothing changes where there is none."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = value
    if not state:
        return
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    for weight, held in optimizer.state.items():
        for key, value in held.items():
            if value.shape == weight.shape:
                # The fused step goes through memory in order: it must be the weight's own order.
                held[key] = torch.empty_like(weight).copy_(value)
