"""FFGU and FFLU: a fully factorised Gaussian over the weights, with a Gaussian or a log-uniform prior."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from evidentia.core.checks import as_computed, require_number
from evidentia.core.predictive import Prediction
from evidentia.errors import InputError
from evidentia.losses.annealing import linear
from evidentia.methods.protocol import Batch, mean_loss
from evidentia.nets import Layers, NetworkSpec
from evidentia.nets.bayesian import (
    Divergence,
    divergence,
    drawn_weights,
    gaussian_convolution,
    gaussian_linear,
    log_uniform_divergence,
    normal_divergence,
)


@dataclass(frozen=True)
class FFGU:
    """samples: weights drawn for a prediction; warm_up_epochs: the divergence grows to its full weight.

    initial_sigma: of every weight before training. Prior N(0, 1).
    """

    name: ClassVar[str] = "ffgu"
    about: ClassVar[str] = "Gaussian weights, Gaussian prior, one forward pass for each sample"
    samples: int = 20
    warm_up_epochs: float = 0
    initial_sigma: float = 0.01

    def __post_init__(self) -> None:
        require_bayesian(self.samples, self.warm_up_epochs, self.initial_sigma)

    @staticmethod
    def prior(mean: Tensor, log_sigma: Tensor) -> Tensor:
        """The divergence of so many weights from N(0, 1)."""
        return normal_divergence(mean, log_sigma)

    def build(self, network: NetworkSpec) -> nn.Module:
        """The network with a Gaussian for every weight and bias."""
        layers = (gaussian_convolution, gaussian_linear)
        return network.build(Layers(*(partial(layer, sigma=self.initial_sigma) for layer in layers)))

    def objective(self, module: nn.Module, batch: Batch, epoch: float, size: int) -> tuple[Tensor, Tensor]:
        """Cross-entropy, and the divergence from the prior as each sample's share of it."""
        return variational_loss(module, batch, self.prior, linear(epoch, self.warm_up_epochs) / size)

    def read(self, logits: Tensor) -> Prediction:
        """Softmax."""
        return Prediction.from_logits(logits)

    def predict(self, module: nn.Module, inputs: Tensor, generator: torch.Generator | None) -> Prediction:
        """The mean of softmax over networks with drawn weights."""
        return sampled_prediction(module, inputs, self.samples, generator)


@dataclass(frozen=True)
class FFLU(FFGU):
    """As FFGU, with a log-uniform prior for weights and biases alike."""

    name: ClassVar[str] = "fflu"
    about: ClassVar[str] = "Gaussian weights, log-uniform prior, one forward pass for each sample"

    @staticmethod
    def prior(mean: Tensor, log_sigma: Tensor) -> Tensor:
        """The divergence of so many weights from the log-uniform distribution."""
        return log_uniform_divergence(mean, log_sigma)


def variational_loss(
    module: nn.Module, batch: Batch, prior: Divergence, weight: float
) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy plus weight times the divergence from the prior (), and the logits (N, K)."""
    logits = as_computed(module(batch.inputs))
    losses = cross_entropy(logits, batch.labels, reduction="none")
    return mean_loss(losses, batch.weights) + weight * divergence(module, prior), logits


def sampled_prediction(
    module: nn.Module, inputs: Tensor, samples: int, generator: torch.Generator | None
) -> Prediction:
    """The mean of softmax over so many draws of the weights, each for the whole batch."""
    total = torch.zeros((), device=inputs.device)
    for _ in range(samples):
        with drawn_weights(module, generator):
            total = total + as_computed(module(inputs)).softmax(-1)
    return Prediction(total / samples)


def require_bayesian(samples: int, warm_up_epochs: float, initial_sigma: float) -> None:
    """Settings that every Bayesian method has."""
    if not (isinstance(samples, int) and samples >= 1):
        raise InputError(f"samples must be a whole number from 1 on, got {samples!r}")
    require_number("warm_up_epochs", warm_up_epochs)
    if not (isinstance(initial_sigma, int | float) and 0 < initial_sigma <= 1):
        raise InputError(f"initial_sigma must be above 0 and at most 1, got {initial_sigma!r}")
