"""Bayesian layers: a Gaussian for every weight and bias, dense and convolution.

In training every example has a sample of its own: of the layer's outputs (local reparametrisation, Kingma et
al. 2015), or of the weights where those are fewer, as in a first convolution. In evaluation the mean weights
are used, and inside `with use_sampled_weights(module, generator)` weights sampled once for all examples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.nn.functional import softplus

from nescio._checks import at_least_float32
from nescio.encoders._fourier import conv2d
from nescio.errors import InputError

Divergence = Callable[[Tensor, Tensor], Tensor]

LEAST_VARIANCE = 1e-16  # of an output; below it the root has no useful slope
LEAST_SQUARE = 1e-30  # of a weight's mean; keeps its logarithm finite
K1, K2, K3 = 0.63576, 1.87320, 1.48695  # Molchanov et al. 2017, equation 14

# The weight and bias that each layer computes with inside `use_sampled_weights`; empty outside it. A forward
# pass takes inputs only, so this is how the sample gets from the context manager to `GaussianLayer.forward`.
# A ContextVar, not an attribute of the layer: another thread that uses the same network does not see it.
_active_sample: ContextVar[Mapping[nn.Module, tuple[Tensor, Tensor]]] = ContextVar(
    "active_sample",
    default={},  # noqa: B039
)


def normal_divergence(mean: Tensor, log_sigma: Tensor) -> Tensor:
    """KL(N(mean, sigma^2) || N(0, 1)) summed: 1/2 (sigma^2 - 1 - log sigma^2 + mean^2)."""
    return 0.5 * (torch.expm1(2 * log_sigma) - 2 * log_sigma + mean.square()).sum()


def log_uniform_divergence(mean: Tensor, log_sigma: Tensor) -> Tensor:
    """KL(N(mean, sigma^2) || log-uniform) summed, zero for sigma^2 / mean^2 -> infinity.

    Molchanov et al. 2017, equation 14, with a = sigma^2 / mean^2:
    k1 - k1 sigmoid(k2 + k3 log a) + 1/2 log(1 + 1/a).
    """
    log_ratio = 2 * log_sigma - (mean.square() + LEAST_SQUARE).log()
    # k1 - k1 sigmoid(x) = k1 sigmoid(-x), which keeps its digits where the ratio is large.
    return (K1 * torch.sigmoid(-K2 - K3 * log_ratio) + 0.5 * softplus(-log_ratio)).sum()


class _Perturbed(torch.autograd.Function):
    """mean + sqrt(variance) * noise; one tensor is kept for the way back."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
        sigma = variance.clamp_min(LEAST_VARIANCE).sqrt_()
        output = torch.addcmul(mean, sigma, noise)
        ctx.save_for_backward(noise / sigma.mul_(2))
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (slope,) = ctx.saved_tensors
        return gradient, gradient * slope, None


def perturbed(mean: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
    """Compute mean + sqrt(variance) * noise; the slope stays finite where the variance is next to nothing."""
    output: Tensor = _Perturbed.apply(mean, variance, noise)  # type: ignore[no-untyped-call]
    return output


class Operation(Protocol):
    """What a plain layer does with its weights."""

    def __call__(self, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Compute the outputs (N, ...) with one weight for all examples."""
        ...

    def apply_per_example(self, inputs: Tensor, weights: Tensor, biases: Tensor) -> Tensor:
        """Compute the outputs (N, ...) with a weight (N, ...) and a bias (N, ...) for each example."""
        ...

    def has_fewer_weights_than_outputs(self, inputs: Tensor, weight: Tensor) -> bool:
        """Say whether there are fewer weights than outputs of one example, and so less to sample."""
        ...


@dataclass(frozen=True)
class Dense:
    """inputs (N, I), weight (O, I)."""

    def __call__(self, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Compute the outputs (N, O)."""
        return functional.linear(inputs, weight, bias)

    def apply_per_example(self, inputs: Tensor, weights: Tensor, biases: Tensor) -> Tensor:
        """Compute the outputs (N, O) with weights (N, O, I)."""
        return torch.bmm(weights, inputs[:, :, None])[:, :, 0] + biases

    def has_fewer_weights_than_outputs(self, inputs: Tensor, weight: Tensor) -> bool:
        """Say no: a dense layer has a weight for each pair of input and output."""
        return False


@dataclass(frozen=True)
class Convolution:
    """inputs (N, I, H, W), weight (O, I, size, size)."""

    size: int
    stride: int = 1
    padding: int = 0

    def __call__(self, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Compute the outputs (N, O, H', W')."""
        return conv2d(inputs, weight, bias, self.stride, self.padding)

    def apply_per_example(self, inputs: Tensor, weights: Tensor, biases: Tensor) -> Tensor:
        """Compute the outputs (N, O, H', W') with weights (N, O, I, size, size), channels last in memory."""
        patches = functional.unfold(inputs, self.size, padding=self.padding, stride=self.stride)
        outputs = torch.bmm(patches.transpose(1, 2), weights.flatten(2).transpose(1, 2))  # (N, H' W', O)
        height = self._places(inputs.shape[2])
        width = self._places(inputs.shape[3])
        return outputs.add_(biases[:, None]).view(len(inputs), height, width, -1).permute(0, 3, 1, 2)

    def has_fewer_weights_than_outputs(self, inputs: Tensor, weight: Tensor) -> bool:
        """Say whether a filter has fewer weights than places where it is applied."""
        places = self._places(inputs.shape[2]) * self._places(inputs.shape[3])
        return weight[0].numel() < places

    def _places(self, side: int) -> int:
        """Count the places along a side of the image where a filter is applied."""
        return (side + 2 * self.padding - self.size) // self.stride + 1


class GaussianLayer(nn.Module):
    """A layer with weights and biases N(mean, sigma^2), all independent.

    The means are `weight` and `bias`, their deviations exp of `weight_log_sigma` and `bias_log_sigma`.

    Args:
        shape: The shape of the weights, outputs first.
        operation: What a plain layer does with inputs, weight and bias.
        sigma: The initial deviation of every weight and bias.
    """

    def __init__(self, shape: tuple[int, ...], operation: Operation, sigma: float) -> None:
        super().__init__()
        self.operation = operation
        self.weight = nn.Parameter(nn.init.kaiming_normal_(torch.empty(shape)))
        self.bias = nn.Parameter(torch.zeros(shape[0]))
        self.weight_log_sigma = nn.Parameter(torch.full(shape, math.log(sigma)))
        self.bias_log_sigma = nn.Parameter(torch.full(shape[:1], math.log(sigma)))

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute outputs (N, ...): with sampled weights in training and inside `use_sampled_weights`."""
        # Inside `use_sampled_weights`: one sample of the weights for all examples.
        active = _active_sample.get().get(self)
        if active is not None:
            weight, bias = active
            return self.operation(inputs, weight, bias)
        # Evaluation outside it: the mean weights.
        if not self.training:
            return self.mean_output(inputs)
        # Training with few weights: a sample of the weights for each example.
        if self.operation.has_fewer_weights_than_outputs(inputs, self.weight):
            weights, biases = self.sample_weights_per_example(len(inputs))
            return self.operation.apply_per_example(inputs, weights, biases)
        # Training with many weights: sums of independent Gaussians are Gaussian, so the outputs are sampled
        # instead of the weights (local reparametrisation).
        mean = self.mean_output(inputs)
        variance = self.operation(
            inputs.square(), (2 * self.weight_log_sigma).exp(), (2 * self.bias_log_sigma).exp()
        )
        return perturbed(mean, variance, noise_like(mean))

    def mean_output(self, inputs: Tensor) -> Tensor:
        """Compute the mean of the outputs, given all that is sampled before the weights."""
        return self.operation(inputs, self.weight, self.bias)

    def sample_weights_per_example(self, count: int) -> tuple[Tensor, Tensor]:
        """Sample weights (count, ...) and biases (count, O) from the posterior."""
        return (
            sample_normal_per_example(self.weight.expand(count, *self.weight.shape), self.weight_log_sigma),
            sample_normal_per_example(self.bias.expand(count, -1), self.bias_log_sigma),
        )

    def sample_weights(self, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Sample one weight and bias from the posterior."""
        return (
            sample_normal(self.weight, self.weight_log_sigma, generator),
            sample_normal(self.bias, self.bias_log_sigma, generator),
        )

    def divergence(self, prior: Divergence) -> Tensor:
        """Compute KL(q || prior) of the weights and the biases, ()."""
        return prior(self.weight, self.weight_log_sigma) + prior(self.bias, self.bias_log_sigma)

    def extra_repr(self) -> str:
        """Show the shape of the weights."""
        return f"weight={tuple(self.weight.shape)}"


def gaussian_linear(inputs: int, outputs: int, *, sigma: float) -> GaussianLayer:
    """Make a dense layer; sigma: the initial deviation of every weight."""
    return GaussianLayer((outputs, inputs), Dense(), sigma)


def gaussian_convolution(
    inputs: int, outputs: int, size: int, stride: int = 1, padding: int = 0, *, sigma: float
) -> GaussianLayer:
    """Make a convolution with a kernel of size x size; sigma: the initial deviation of every weight."""
    return GaussianLayer((outputs, inputs, size, size), Convolution(size, stride, padding), sigma)


def noise_like(outputs: Tensor) -> Tensor:
    """Sample standard normal noise of the same shape, type and memory format."""
    # Drawing is several times faster into memory in its plain order, and in float32.
    dtype = at_least_float32(outputs[:0]).dtype
    if outputs.ndim == 4 and outputs.is_contiguous(memory_format=torch.channels_last):
        count, channels, height, width = outputs.shape
        plain = torch.empty((count, height, width, channels), dtype=dtype, device=outputs.device)
        return plain.normal_().permute(0, 3, 1, 2).to(outputs.dtype)
    return torch.empty(outputs.shape, dtype=dtype, device=outputs.device).normal_().to(outputs.dtype)


def sample_normal(mean: Tensor, log_sigma: Tensor, generator: torch.Generator | None) -> Tensor:
    """Sample N(mean, sigma^2) with the generator's noise, on whatever device the generator is."""
    device = mean.device if generator is None else generator.device
    noise = torch.randn(mean.shape, generator=generator, device=device, dtype=mean.dtype).to(mean.device)
    return torch.addcmul(mean, log_sigma.exp(), noise)


def sample_normal_per_example(means: Tensor, log_sigma: Tensor) -> Tensor:
    """Sample N(mean, sigma^2) for each of the means (N, ...), which share one sigma (...)."""
    noise = torch.randn(means.shape, dtype=means.dtype, device=means.device)
    return torch.addcmul(means, log_sigma.exp(), noise)


def require_bayesian_layers(module: nn.Module) -> None:
    """Refuse a module without Bayesian layers."""
    if not any(isinstance(layer, GaussianLayer) for layer in module.modules()):
        raise InputError("network must have Bayesian layers; let the method build it from a spec")


def bayesian_layers(module: nn.Module) -> list[GaussianLayer]:
    """List the Bayesian layers inside a module, in their order; a module without any is refused."""
    require_bayesian_layers(module)
    return [layer for layer in module.modules() if isinstance(layer, GaussianLayer)]


@contextmanager
def use_sampled_weights(module: nn.Module, generator: torch.Generator | None) -> Iterator[None]:
    """Sample weights once; in the block the module computes with them, at the cost of a plain network."""
    sample: dict[nn.Module, tuple[Tensor, Tensor]] = {}
    for layer in bayesian_layers(module):
        weight, bias = layer.sample_weights(generator)
        # A filter of one channel can be read in two orders, and the wrong one makes all that follows slow.
        sample[layer] = (torch.empty_like(layer.weight).copy_(weight), bias)
    token = _active_sample.set(sample)
    try:
        yield
    finally:
        _active_sample.reset(token)


def divergence(module: nn.Module, prior: Divergence) -> Tensor:
    """Sum KL(q || prior) of all Bayesian layers, (), in float32 or wider whatever the network computes in."""
    layers = bayesian_layers(module)
    with torch.autocast(layers[0].weight.device.type, enabled=False):
        return torch.stack([layer.divergence(prior) for layer in layers]).sum()
