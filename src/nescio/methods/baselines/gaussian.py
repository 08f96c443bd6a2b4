"""FFGU and FFLU: a fully factorised Gaussian over the weights, with a Gaussian or a log-uniform prior."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from nescio._checks import require_number, require_whole
from nescio.encoders import Layers, NetworkSpec
from nescio.errors import InputError
from nescio.functional.annealing import linear
from nescio.methods._shared import mean_of_softmax, softmax_loss
from nescio.methods.base import Batch, Method
from nescio.methods.baselines._bayesian import (
    Divergence,
    bayesian_layers,
    divergence,
    drawn_weights,
    gaussian_convolution,
    gaussian_linear,
    log_uniform_divergence,
    normal_divergence,
)
from nescio.opinions.categorical import Categorical


@dataclass(frozen=True)
class FFGU(Method):
    """samples: weights drawn for a prediction; warm_up_epochs: the divergence grows to its full weight.

    initial_sigma: of every weight before training. Prior N(0, 1).
    """

    name: ClassVar[str] = "ffgu"
    about: ClassVar[str] = "Gaussian weights with a Gaussian prior: the mean of many draws of them"
    paper: ClassVar[str] = "Louizos & Welling 2017, Multiplicative Normalizing Flows (its FFG baseline)"
    is_stochastic: ClassVar[bool] = True
    samples: int = 20
    warm_up_epochs: float = 0
    initial_sigma: float = 0.01

    def __post_init__(self) -> None:
        require_whole("samples", self.samples)
        require_number("warm_up_epochs", self.warm_up_epochs)
        require_number("initial_sigma", self.initial_sigma)
        if not 0 < self.initial_sigma <= 1:
            raise InputError(f"initial_sigma must be above 0 and at most 1, got {self.initial_sigma!r}")

    @property
    def passes(self) -> int:
        """One a draw of the weights."""
        return self.samples

    def default_encoder(self, network: Any) -> Any:
        """Without dropout: the weights are noise enough."""
        return replace(network, dropout=0.0)

    @staticmethod
    def prior(mean: Tensor, log_sigma: Tensor) -> Tensor:
        """The divergence of so many weights from N(0, 1)."""
        return normal_divergence(mean, log_sigma)

    def build(self, network: NetworkSpec) -> nn.Module:
        """The network with a Gaussian for every weight and bias."""
        layers = (gaussian_convolution, gaussian_linear)
        return network.build(Layers(*(partial(layer, sigma=self.initial_sigma) for layer in layers)))

    def check_module(self, module: nn.Module) -> nn.Module:
        """A network with Bayesian layers."""
        bayesian_layers(module)
        return module

    def objective(
        self, module: nn.Module, batch: Batch, epoch: float, num_train: int
    ) -> tuple[Tensor, Tensor]:
        """Cross-entropy, and the divergence from the prior as each sample's share of it."""
        return variational_loss(module, batch, self.prior, linear(epoch, self.warm_up_epochs) / num_train)

    def predict(self, module: nn.Module, inputs: Tensor, generator: torch.Generator) -> Categorical:
        """The mean of softmax over networks with drawn weights."""
        return mean_of_softmax(drawn_passes(module, inputs, self.samples, generator))


@dataclass(frozen=True)
class FFLU(FFGU):
    """As FFGU, with a log-uniform prior for weights and biases alike."""

    name: ClassVar[str] = "fflu"
    about: ClassVar[str] = "Gaussian weights with a log-uniform prior: the mean of many draws of them"
    paper: ClassVar[str] = "Molchanov et al. 2017, Variational Dropout Sparsifies Deep Neural Networks"

    @staticmethod
    def prior(mean: Tensor, log_sigma: Tensor) -> Tensor:
        """The divergence of so many weights from the log-uniform distribution."""
        return log_uniform_divergence(mean, log_sigma)


def variational_loss(
    module: nn.Module, batch: Batch, prior: Divergence, weight: float
) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy plus weight times the divergence from the prior (), and the logits (N, K).

    Held-out samples are measured without the divergence, which is not about them.
    """
    loss, logits = softmax_loss(module, batch)
    return (loss + weight * divergence(module, prior) if module.training else loss), logits


def drawn_passes(
    module: nn.Module, inputs: Tensor, samples: int, generator: torch.Generator
) -> Iterator[Tensor]:
    """Logits (N, K) of so many draws of the weights, each for the whole batch."""
    for _ in range(samples):
        with drawn_weights(module, generator):
            logits = module(inputs)
        yield logits
