"""Method: how to build a network, what to minimise on a batch, how to predict. Nothing else differs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from evidentia.core.predictive import Predictive
from evidentia.nets import NetworkSpec

Forward = Callable[[Tensor], Tensor]


class Batch(NamedTuple):
    """Inputs (N, ...) as the network takes them, labels (N,), and a weight for each sample (N,) or None."""

    inputs: Tensor
    labels: Tensor
    weights: Tensor | None = None


class Method(Protocol):
    """A frozen dataclass of settings with these functions."""

    name: ClassVar[str]
    about: ClassVar[str]

    def build(self, network: NetworkSpec) -> nn.Module:
        """A new network for this method."""
        ...

    def objective(self, module: nn.Module, batch: Batch, epoch: float, size: int) -> tuple[Tensor, Tensor]:
        """The loss of a batch (), and the logits (N, K) it came from.

        epoch: how far the training is, fractions included; size: of the whole training set.
        """
        ...

    def read(self, logits: Tensor) -> Predictive:
        """What logits (N, K) of one forward pass say."""
        ...

    def predict(self, module: nn.Module, inputs: Tensor, generator: torch.Generator | None) -> Predictive:
        """The prediction for inputs (N, ...); the module is in evaluation mode."""
        ...


def mean_loss(losses: Tensor, weights: Tensor | None) -> Tensor:
    """The mean of (N,), weighted by (N,) where there are weights."""
    if weights is None:
        return losses.mean()
    return (losses * weights).sum() / weights.sum().clamp_min(torch.finfo(losses.dtype).tiny)


def method_to_dict(method: Method) -> dict[str, Any]:
    """Name and settings as plain data, for a model file."""
    return {"name": method.name, **dataclasses.asdict(method)}  # type: ignore[call-overload]
