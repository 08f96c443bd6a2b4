"""FFLU: a fully factorised Gaussian over the weights, with a log-uniform prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from nescio.methods.baselines._bayesian import log_uniform_divergence
from nescio.methods.baselines.ffgu import FFGU


@dataclass(frozen=True)
class FFLU(FFGU):
    """A Gaussian for every weight like FFGU, with a log-uniform prior for weights and biases alike.

    Args:
        samples: Number of weight samples that a prediction averages.
        warm_up_epochs: Number of epochs over which the divergence grows to its full weight; 0 for none.
        initial_sigma: Standard deviation of every weight before training, above 0 and at most 1.

    Raises:
        InputError: If a setting does not fit.

    Example:
        >>> FFLU(warm_up_epochs=10)
        FFLU(samples=20, warm_up_epochs=10, initial_sigma=0.01)
    """

    name: ClassVar[str] = "fflu"
    about: ClassVar[str] = "Gaussian weights with a log-uniform prior: the mean of many draws of them"
    paper: ClassVar[str] = "Molchanov et al. 2017, Variational Dropout Sparsifies Deep Neural Networks"

    @staticmethod
    def prior_divergence(mean: Tensor, log_sigma: Tensor) -> Tensor:
        """Compute KL(N(mean, sigma^2) || log-uniform), ()."""
        return log_uniform_divergence(mean, log_sigma)
