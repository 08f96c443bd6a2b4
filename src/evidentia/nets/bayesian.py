"""Bayesian layers: a Gaussian for every weight and bias, dense and convolution.

In training a layer's output is drawn (local reparametrisation, Kingma et al. 2015), in evaluation the mean
weights are used, and inside `drawn_weights` weights drawn once, as in any plain network.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.nn.functional import softplus

from evidentia.core.checks import as_computed

Operation = Callable[[Tensor, Tensor, Tensor | None], Tensor]
Divergence = Callable[[Tensor, Tensor], Tensor]

LEAST_VARIANCE = 1e-16  # of an output; below it the root has no useful slope
LEAST_SQUARE = 1e-30  # of a weight's mean; keeps its logarithm finite
K1, K2, K3 = 0.63576, 1.87320, 1.48695  # Molchanov et al. 2017, equation 14

_drawn: ContextVar[Mapping[nn.Module, tuple[Tensor, Tensor]]] = ContextVar("drawn", default={})  # noqa: B039


def normal_divergence(mean: Tensor, log_sigma: Tensor) -> Tensor:
    """KL[N(mean, sigma^2) // N(0, 1)] summed: 1/2 (sigma^2 - 1 - log sigma^2 + mean^2)."""
    return 0.5 * (torch.expm1(2 * log_sigma) - 2 * log_sigma + mean.square()).sum()


def log_uniform_divergence(mean: Tensor, log_sigma: Tensor) -> Tensor:
    """KL[N(mean, sigma^2) // log-uniform] summed, zero for sigma^2 / mean^2 -> infinity.

    Molchanov et al. 2017, equation 14, with a = sigma^2 / mean^2:
    k1 - k1 sigmoid(k2 + k3 log a) + 1/2 log(1 + 1/a).
    """
    log_ratio = 2 * log_sigma - (mean.square() + LEAST_SQUARE).log()
    # k1 - k1 sigmoid(x) = k1 sigmoid(-x), which keeps its digits where the ratio is large.
    return (K1 * torch.sigmoid(-K2 - K3 * log_ratio) + 0.5 * softplus(-log_ratio)).sum()


class _Perturbed(torch.autograd.Function):
    """mean + sqrt(variance) * noise; one tensor is kept for the way back. Overwrites variance and noise."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
        sigma = variance.clamp_min(LEAST_VARIANCE).sqrt_()
        output = torch.addcmul(mean, sigma, noise)
        ctx.save_for_backward(noise / sigma.mul_(2), variance > LEAST_VARIANCE)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        slope, moves = ctx.saved_tensors
        return gradient, gradient * slope * moves, None


def perturbed(mean: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
    """mean + sqrt(variance) * noise, with a slope of zero where the variance is next to nothing."""
    output: Tensor = _Perturbed.apply(mean, variance, noise)
    return output


class GaussianLayer(nn.Module):
    """Weights and biases N(mean, sigma^2), all independent; `operation` is what a plain layer does with them.

    weight, bias: the means; log_sigma of both beside them.
    """

    def __init__(self, shape: tuple[int, ...], operation: Operation, sigma: float) -> None:
        super().__init__()
        self.operation = operation
        self.weight = nn.Parameter(nn.init.kaiming_normal_(torch.empty(shape)))
        self.bias = nn.Parameter(torch.zeros(shape[0]))
        self.weight_log_sigma = nn.Parameter(torch.full(shape, math.log(sigma)))
        self.bias_log_sigma = nn.Parameter(torch.full(shape[:1], math.log(sigma)))

    def forward(self, inputs: Tensor) -> Tensor:
        """Drawn outputs in training, else those of the drawn weights or of the mean ones."""
        drawn = _drawn.get().get(self)
        if drawn is not None:
            return self.operation(inputs, *drawn)
        mean = self.mean_output(inputs)
        if not self.training:
            return mean
        variance = self.operation(
            inputs.square(), (2 * self.weight_log_sigma).exp(), (2 * self.bias_log_sigma).exp()
        )
        return perturbed(mean, variance, noise_like(mean))

    def mean_output(self, inputs: Tensor) -> Tensor:
        """The mean of the outputs, given all that is drawn before the weights."""
        return self.operation(inputs, self.weight, self.bias)

    def draw(self, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Weight and bias from the posterior."""
        return (
            drawn_normal(self.weight, self.weight_log_sigma, generator),
            drawn_normal(self.bias, self.bias_log_sigma, generator),
        )

    def divergence(self, prior: Divergence) -> Tensor:
        """KL from the prior, of the weights and the biases, ()."""
        return prior(as_computed(self.weight), as_computed(self.weight_log_sigma)) + prior(
            as_computed(self.bias), as_computed(self.bias_log_sigma)
        )

    def extra_repr(self) -> str:
        """The shape of the weights."""
        return f"weight={tuple(self.weight.shape)}"


def gaussian_linear(inputs: int, outputs: int, *, sigma: float) -> GaussianLayer:
    """A dense layer; sigma: of every weight at the start."""
    return GaussianLayer((outputs, inputs), functional.linear, sigma)


def gaussian_convolution(
    inputs: int, outputs: int, size: int, stride: int = 1, padding: int = 0, *, sigma: float
) -> GaussianLayer:
    """A convolution with a kernel of size x size; sigma: of every weight at the start."""
    return GaussianLayer((outputs, inputs, size, size), convolution(stride, padding), sigma)


def convolution(stride: int, padding: int) -> Operation:
    """What a plain convolution does with inputs, weight and bias."""
    return partial(functional.conv2d, stride=stride, padding=padding)


def noise_like(outputs: Tensor) -> Tensor:
    """Standard normal, of the same shape, type and memory format."""
    images = outputs.ndim == 4 and outputs.is_contiguous(memory_format=torch.channels_last)
    shape = outputs.permute(0, 2, 3, 1).shape if images else outputs.shape
    # Drawing is several times faster into memory in its plain order, and in float32.
    noise = torch.empty(shape, dtype=as_computed(outputs[:0]).dtype, device=outputs.device).normal_()
    return (noise.permute(0, 3, 1, 2) if images else noise).to(outputs.dtype)


def drawn_normal(mean: Tensor, log_sigma: Tensor, generator: torch.Generator | None) -> Tensor:
    """N(mean, sigma^2) with the generator's noise, wherever it lives."""
    device = mean.device if generator is None else generator.device
    noise = torch.randn(mean.shape, generator=generator, device=device, dtype=mean.dtype).to(mean.device)
    return torch.addcmul(mean, log_sigma.exp(), noise)


def bayesian_layers(module: nn.Module) -> list[GaussianLayer]:
    """All of them inside a module, in their order."""
    return [layer for layer in module.modules() if isinstance(layer, GaussianLayer)]


@contextmanager
def drawn_weights(module: nn.Module, generator: torch.Generator | None) -> Iterator[None]:
    """Inside, the module computes with weights drawn once, at the cost of a plain network."""
    token = _drawn.set({layer: layer.draw(generator) for layer in bayesian_layers(module)})
    try:
        yield
    finally:
        _drawn.reset(token)


def divergence(module: nn.Module, prior: Divergence) -> Tensor:
    """KL of all Bayesian layers from the prior, (), in float32 or wider whatever the network computes in."""
    layers = bayesian_layers(module)
    with torch.autocast(layers[0].weight.device.type, enabled=False):
        return torch.stack([layer.divergence(prior) for layer in layers]).sum()
