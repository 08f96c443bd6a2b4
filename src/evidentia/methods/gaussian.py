"""FFGU and FFLU: a fully factorised Gaussian over the weights, with a Gaussian or a log-uniform prior."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from evidentia.core.checks import require_number
from evidentia.core.predictive import Prediction
from evidentia.errors import InputError
from evidentia.losses.annealing import linear
from evidentia.methods.protocol import Batch
from evidentia.methods.softmax import SoftmaxMethod, mean_of_softmax, require_samples, softmax_loss
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


class GaussianMethod(SoftmaxMethod):
    """What the methods with Gaussian weights share: they draw, and average softmax over the draws."""

    draws: ClassVar[bool] = True
    samples: int

    @property
    def passes(self) -> int:
        """One a draw of the weights."""
        return self.samples

    def adapt(self, network: Any) -> Any:
        """Without dropout: the weights are noise enough."""
        return replace(network, dropout=0.0)

    def predict(self, module: nn.Module, inputs: Tensor, generator: torch.Generator) -> Prediction:
        """The mean of softmax over networks with drawn weights."""
        return mean_of_softmax(drawn_passes(module, inputs, self.samples, generator))


@dataclass(frozen=True)
class FFGU(GaussianMethod):
    """samples: weights drawn for a prediction; warm_up_epochs: the divergence grows to its full weight.

    initial_sigma: of every weight before training. Prior N(0, 1).
    """

    name: ClassVar[str] = "ffgu"
    about: ClassVar[str] = "Gaussian weights with a Gaussian prior: the mean of many draws of them"
    paper: ClassVar[str] = "Louizos & Welling 2017, Multiplicative Normalizing Flows (its FFG baseline)"
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
            yield module(inputs)


def require_bayesian(samples: int, warm_up_epochs: float, initial_sigma: float) -> None:
    """Settings that every Bayesian method has."""
    require_samples(samples)
    require_number("warm_up_epochs", warm_up_epochs)
    if not (isinstance(initial_sigma, int | float) and 0 < initial_sigma <= 1):
        raise InputError(f"initial_sigma must be above 0 and at most 1, got {initial_sigma!r}")
