"""The exponential moving average of a network's weights, which are watched and kept instead of the last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

# At the beginning the average forgets faster, or it would hold on to the first weights for long.
SOON = 10
_STEPS = ""  # the name of their number among packed tensors: no weight can have it


class WeightAverage:
    """average = decay * average + (1 - decay) * weight after every step, for parameters and buffers.

    Args:
        module: Whose weights are averaged.
        decay: How much of the average is kept at each step, from 0 to below 1.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self.steps = 0
        self._weights: dict[str, Tensor] = {}
        for name, value in module.state_dict(keep_vars=True).items():
            if value.is_floating_point():
                self._weights[name] = value.detach()
        self._averages = {name: value.clone() for name, value in self._weights.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights of now."""
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + SOON))
        for name, average in self._averages.items():
            average.lerp_(self._weights[name], 1 - decay)

    @torch.no_grad()
    def put_in(self) -> None:
        """Make the averages the weights of the module."""
        for name, weight in self._weights.items():
            weight.copy_(self._averages[name])

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within, the module has the averages as its weights; afterwards its own again."""
        own = {name: weight.clone() for name, weight in self._weights.items()}
        self.put_in()
        try:
            yield
        finally:
            with torch.no_grad():
                for name, weight in self._weights.items():
                    weight.copy_(own[name])

    def pack(self) -> dict[str, Tensor]:
        """The averages by the names of the weights, and the number of steps."""
        return {**self._averages, _STEPS: torch.tensor(self.steps)}

    def unpack(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on with what `pack` gave; without tensors nothing changes."""
        if not tensors:
            return
        self.steps = int(tensors[_STEPS])
        for name, average in self._averages.items():
            average.copy_(tensors[name])
