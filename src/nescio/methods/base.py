"""Method: how to build a network, what to minimise on a batch, how to predict. Nothing else differs."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from nescio.encoders import NetworkSpec
from nescio.opinions.categorical import Categorical, Prediction


class Batch(NamedTuple):
    """Inputs (N, C, ...) as the network takes them, labels (N,), a weight for each sample (N,) or None.

    input_range: from the least to the greatest training input along axis 1, (C,), as the network takes it.
    """

    inputs: Tensor
    labels: Tensor
    weights: Tensor | None = None
    input_range: Tensor | None = None


class Method(Protocol):
    """A frozen dataclass of settings with these functions; those with a body are what most methods do.

    about: one line for people. paper: where it comes from. is_stochastic: whether a prediction draws at
    random.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    paper: ClassVar[str]
    is_stochastic: ClassVar[bool] = False

    @property
    def passes(self) -> int:
        """Forward passes that a prediction costs."""
        return 1

    @property
    def trainings(self) -> int:
        """Networks that are trained, one after the other."""
        return 1

    def default_encoder(self, network: Any) -> Any:
        """The network spec as this method likes it, where the user has chosen none."""
        return network

    def build(self, network: NetworkSpec) -> nn.Module:
        """A new network for this method."""
        return network.build()

    def check_module(self, module: nn.Module) -> nn.Module:
        """A network of the user's own, refused where this method can't train it."""
        return module

    def members(self, module: nn.Module) -> list[nn.Module]:
        """The parts of a built network that are trained one after the other, each with its own optimiser."""
        return [module]

    def objective(
        self, module: nn.Module, batch: Batch, epoch: float, num_train: int
    ) -> tuple[Tensor, Tensor]:
        """The loss of a batch (), and the logits (N, K) it came from; module is one of the members.

        epoch: how far the training is, fractions included; num_train: size of the whole training set.
        In evaluation mode it is the loss of held-out samples: nothing is drawn, no gradient is needed.
        """
        ...

    def interpret(self, logits: Tensor) -> Prediction:
        """What logits (N, K) of one forward pass say: softmax."""
        return Categorical.from_logits(logits)

    def predict(self, module: nn.Module, inputs: Tensor, generator: torch.Generator) -> Prediction:
        """The prediction for inputs (N, ...); the module is in evaluation mode."""
        return self.interpret(module(inputs))


def mean_loss(losses: Tensor, weights: Tensor | None) -> Tensor:
    """The mean of (N,), weighted by (N,) where there are weights."""
    if weights is None:
        return losses.mean()
    return (losses * weights).sum() / weights.sum().clamp_min(torch.finfo(losses.dtype).tiny)


def method_to_dict(method: Method) -> dict[str, Any]:
    """Name and settings as plain data, for a model file."""
    return {"name": method.name, **dataclasses.asdict(method)}  # type: ignore[call-overload]
