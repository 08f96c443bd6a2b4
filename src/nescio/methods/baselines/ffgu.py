"""FFGU: a fully factorised Gaussian over the weights, with a Gaussian prior."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from nescio._checks import require_number, require_whole
from nescio.encoders import Ability, EncoderSpec, Layers
from nescio.errors import InputError
from nescio.functional import linear_annealing
from nescio.methods._shared import mean_of_softmax, softmax_loss
from nescio.methods.base import MOST_SAMPLES, Batch, Method
from nescio.methods.baselines._bayesian import (
    divergence,
    gaussian_convolution,
    gaussian_linear,
    normal_divergence,
    require_bayesian_layers,
    use_sampled_weights,
)
from nescio.opinions.categorical import Categorical


@dataclass(frozen=True)
class FFGU(Method):
    """A Gaussian N(mean, sigma^2) for every weight, all independent, with the prior N(0, 1).

    It minimises the mean cross-entropy under sampled weights plus KL(q(W) || p(W)) / num_train, and predicts
    with the mean of softmax over sampled weights.

    Args:
        samples: Number of weight samples that a prediction averages, at most 10,000.
        warm_up_epochs: Number of epochs over which the divergence grows to its full weight; 0 for none.
        initial_sigma: Standard deviation of every weight before training, above 0 and at most 1.

    Raises:
        InputError: If a setting does not fit.

    Example:
        >>> FFGU(samples=10).passes
        10
    """

    name: ClassVar[str] = "ffgu"
    about: ClassVar[str] = "Gaussian weights with a Gaussian prior: the mean of many draws of them"
    paper: ClassVar[str] = "Louizos & Welling 2017, Multiplicative Normalizing Flows (its FFG baseline)"
    takes_soft_labels: ClassVar[bool] = True
    is_stochastic: ClassVar[bool] = True
    requires: ClassVar[frozenset[Ability]] = frozenset({Ability.LAYERS})

    samples: int = 20
    warm_up_epochs: float = 0
    initial_sigma: float = 0.01

    def __post_init__(self) -> None:
        require_whole("samples", self.samples, most=MOST_SAMPLES)
        require_number("warm_up_epochs", self.warm_up_epochs)
        require_number("initial_sigma", self.initial_sigma)
        if not 0 < self.initial_sigma <= 1:
            raise InputError(f"initial_sigma must be above 0 and at most 1, got {self.initial_sigma!r}")

    @property
    def passes(self) -> int:
        """Forward passes that a prediction costs: one for each sample of the weights."""
        return self.samples

    def default_encoder(self, encoder: EncoderSpec) -> EncoderSpec:
        """Switch dropout off: the weights are noise enough."""
        return encoder.without_dropout()

    def layers(self) -> Layers:
        """Give layers with a Gaussian for every weight and bias."""
        return Layers(
            convolution=partial(gaussian_convolution, sigma=self.initial_sigma),
            linear=partial(gaussian_linear, sigma=self.initial_sigma),
        )

    def check_module(self, module: nn.Module) -> nn.Module:
        """Refuse a network without Bayesian layers."""
        require_bayesian_layers(module)
        return module

    def objective(
        self, module: nn.Module, batch: Batch, epoch: float, num_train: int
    ) -> tuple[Tensor, Tensor]:
        """Compute the cross-entropy plus each sample's share of the divergence from the prior.

        Held-out samples are measured without the divergence, which is not about them.
        """
        loss, logits = softmax_loss(module, batch)
        if module.training:
            weight = linear_annealing(epoch, self.warm_up_epochs) / num_train
            loss = loss + weight * divergence(module, self.prior_divergence)
        return loss, logits

    @staticmethod
    def prior_divergence(mean: Tensor, log_sigma: Tensor) -> Tensor:
        """Compute KL(N(mean, sigma^2) || N(0, 1)), (); FFLU overrides this with its own prior."""
        return normal_divergence(mean, log_sigma)

    def predict(self, module: nn.Module, inputs: Tensor, generator: torch.Generator) -> Categorical:
        """Average softmax over networks with sampled weights."""
        return mean_of_softmax(_sampled_passes(module, inputs, self.samples, generator))

    def predict_each(self, module: nn.Module, inputs: Tensor, generator: torch.Generator) -> Categorical:
        """Predict as `predict` does: weights are sampled once for all inputs."""
        return self.predict(module, inputs, generator)


def _sampled_passes(
    module: nn.Module, inputs: Tensor, samples: int, generator: torch.Generator
) -> Iterator[Tensor]:
    """Yield logits (N, K) of so many samples of the weights, each for the whole batch."""
    for _ in range(samples):
        # In this block the layers compute with the sampled weights instead of their means.
        with use_sampled_weights(module, generator):
            logits = module(inputs)
        yield logits
