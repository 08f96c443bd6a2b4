"""The optimiser's state between two epochs as named tensors, and back."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def pack_optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state as tensors named INDEX.NAME."""
    tensors: dict[str, Tensor] = {}
    for index, values in optimizer.state_dict()["state"].items():
        for name, value in values.items():
            tensors[f"{index}.{name}"] = torch.as_tensor(value)
    return tensors


def unpack_optimizer(tensors: Mapping[str, Tensor], optimizer: torch.optim.Optimizer) -> None:
    """Put the state back; without tensors nothing changes."""
    state: dict[int, dict[str, Tensor]] = {}
    for full_name, value in tensors.items():
        index, _, name = full_name.partition(".")
        state.setdefault(int(index), {})[name] = value
    if not state:
        return
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    for weight, values in optimizer.state.items():
        for name, value in values.items():
            if value.shape == weight.shape:
                # The fused step goes through memory in order: it must be the weight's own order.
                values[name] = torch.empty_like(weight).copy_(value)
