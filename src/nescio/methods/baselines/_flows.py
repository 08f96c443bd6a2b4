"""Multiplicative normalizing flows (Louizos & Welling 2017): layers whose mean weights are scaled by a z
that a flow draws, so that weights depend on each other.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import logsigmoid

from nescio.methods.baselines._bayesian import (
    Convolution,
    Dense,
    Divergence,
    GaussianLayer,
    Operation,
    perturbed,
    sample_normal,
    sample_normal_per_example,
)

START_SIGMA = 0.1  # of z, around one
OPEN_GATE = 2.0  # the gates' bias at the start: most of z passes


class FlowStep(nn.Module):
    """z (M, D): one half of its units stays, x, and decides what becomes of the other, y.

    h = tanh(f(x)), g = sigmoid(k(h)), y' = g y + (1 - g) u(h): Louizos & Welling 2017, section 3.2, with
    halves that are fixed instead of drawn, so that a flow is a function.
    """

    def __init__(self, size: int, hidden: int, keeps_first: bool) -> None:
        super().__init__()
        self.border = size // 2
        self.keeps_first = keeps_first
        kept = self.border if keeps_first else size - self.border
        self.hidden = Affine(kept, hidden, 1 / math.sqrt(max(kept, 1)), 0.0)
        self.shift = Affine(hidden, size - kept, 0.01, 1.0)
        self.gate = Affine(hidden, size - kept, 0.01, OPEN_GATE)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Compute z' (M, D), and how far the gates stand open before the sigmoid (M, about D / 2)."""
        first = z[:, : self.border]
        second = z[:, self.border :]
        if self.keeps_first:
            moved, opening = self._move(second, first)
            return torch.cat((first, moved), 1), opening
        moved, opening = self._move(first, second)
        return torch.cat((moved, second), 1), opening

    def _move(self, other: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
        """Move the other half as the kept one decides; return it with the gates before the sigmoid."""
        hidden = torch.tanh(self.hidden(kept))
        opening = self.gate(hidden)
        return torch.lerp(self.shift(hidden), other, torch.sigmoid(opening)), opening


class Affine(nn.Module):
    """A plain dense layer that starts as told; it may have no inputs or no outputs at all."""

    def __init__(self, inputs: int, outputs: int, spread: float, bias: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(spread * torch.randn(outputs, inputs))
        self.bias = nn.Parameter(torch.full((outputs,), bias))

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (M, inputs) to (M, outputs)."""
        return functional.linear(inputs, self.weight, self.bias)


class Flow(nn.Module):
    """Steps, one after the other, in the precision of z: a narrower one would show in every weight."""

    def __init__(self, size: int, hidden: int, length: int) -> None:
        super().__init__()
        self.steps = nn.ModuleList(FlowStep(size, hidden, step % 2 == 0) for step in range(length))

    def forward(self, z: Tensor) -> Tensor:
        """Send z through all steps, (M, D)."""
        with torch.autocast(z.device.type, enabled=False):
            for step in self.steps:
                z, _ = step(z)
        return z

    def with_log_determinant(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Send z through all steps, (M, D), and compute log |det| of the derivative (M,)."""
        total = z.new_zeros(len(z))
        with torch.autocast(z.device.type, enabled=False):
            for step in self.steps:
                z, opening = step(z)
                total = total + logsigmoid(opening).sum(1)
        return z, total


class Multiplier(nn.Module):
    """q(z), a Gaussian sent through a flow, and r(z | W), which bounds what z adds to the divergence."""

    def __init__(self, size: int, hidden: int, length: int, auxiliary_hidden: int | None = None) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.ones(size))
        self.log_sigma = nn.Parameter(torch.full((size,), math.log(START_SIGMA)))
        self.flow = Flow(size, hidden, length)
        self.inverse = Flow(size, auxiliary_hidden or hidden, length)
        self.reader = nn.Parameter(torch.randn(size) / math.sqrt(size))  # c
        self.mean_scale = nn.Parameter(0.1 * torch.randn(size))  # b1
        self.spread_scale = nn.Parameter(0.1 * torch.randn(size))  # b2

    def forward(self, count: int) -> Tensor:
        """Sample `count` of z, (M, D)."""
        z: Tensor = self.flow(sample_normal_per_example(self.mean.expand(count, -1), self.log_sigma))
        return z

    def center(self) -> Tensor:
        """Compute z (1, D) where the Gaussian is at its mean."""
        z: Tensor = self.flow(self.mean[None])
        return z

    def sample(self, generator: torch.Generator | None) -> Tensor:
        """Sample one z (1, D) with the generator's noise."""
        z: Tensor = self.flow(sample_normal(self.mean[None], self.log_sigma, generator))
        return z

    def with_log_q(self) -> tuple[Tensor, Tensor]:
        """Sample one z (1, D) with its log q(z) (), exact in expectation over the Gaussian's own noise."""
        z, log_determinant = self.flow.with_log_determinant(
            sample_normal_per_example(self.mean[None], self.log_sigma)
        )
        entropy = (0.5 * math.log(2 * math.pi * math.e) + self.log_sigma).sum()
        return z, -entropy - log_determinant[0]

    def log_r(self, z: Tensor, reading: Tensor) -> Tensor:
        """Compute log r(z | W) of one z (1, D), (); reading: what is seen of the weights, ()."""
        base, log_determinant = self.inverse.with_log_determinant(z)
        log_variance = self.spread_scale * reading
        distance = (base[0] - self.mean_scale * reading).square() * (-log_variance).exp()
        return log_determinant[0] - 0.5 * (math.log(2 * math.pi) + log_variance + distance).sum()


class FlowLayer(GaussianLayer):
    """W given z is N(z * weight, sigma^2); z stands on one axis of the weights, the biases are left alone.

    z_axis 1: a z for each input unit, dense layers; 0: for each filter, convolutions. length 0 switches the
    flow off: z is one, and the layer a GaussianLayer.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        operation: Operation,
        sigma: float,
        *,
        z_axis: int,
        hidden: int,
        length: int,
        auxiliary_hidden: int | None = None,
    ) -> None:
        super().__init__(shape, operation, sigma)
        self.z_axis = z_axis
        self.multiplier = Multiplier(shape[z_axis], hidden, length, auxiliary_hidden) if length else None

    def mean_output(self, inputs: Tensor) -> Tensor:
        """Compute the mean of the outputs; in training with a z of its own for each example."""
        if self.multiplier is None:
            return super().mean_output(inputs)
        z = self._multipliers(len(inputs), self.multiplier)  # (N or 1, D)
        if self.z_axis == 1:
            return self.operation(inputs * z, self.weight, self.bias)
        plain = self.operation(inputs, self.weight, None)
        bias = self.bias.to(plain.dtype)[:, None, None]
        return torch.addcmul(bias, plain, z.to(plain.dtype)[:, :, None, None])

    def sample_weights_per_example(self, count: int) -> tuple[Tensor, Tensor]:
        """Sample weights (count, ...) and biases (count, O) from the posterior, with a z for each of them."""
        if self.multiplier is None:
            return super().sample_weights_per_example(count)
        means = self.weight * self._along_axis(self._multipliers(count, self.multiplier))
        return (
            sample_normal_per_example(means.expand(count, *self.weight.shape), self.weight_log_sigma),
            sample_normal_per_example(self.bias.expand(count, -1), self.bias_log_sigma),
        )

    def sample_weights(self, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Sample z, then weight and bias, from the posterior."""
        if self.multiplier is None:
            return super().sample_weights(generator)
        mean = (self.weight * self._along_axis(self.multiplier.sample(generator)))[0]
        return (
            sample_normal(mean, self.weight_log_sigma, generator),
            sample_normal(self.bias, self.bias_log_sigma, generator),
        )

    def divergence(self, prior: Divergence) -> Tensor:
        """Estimate a bound on the KL from the prior: E[KL(q(W|z) || p(W)) + log q(z) - log r(z|W)]."""
        if self.multiplier is None:
            return super().divergence(prior)
        z, log_q = self.multiplier.with_log_q()
        given_z = prior((self.weight * self._along_axis(z))[0], self.weight_log_sigma)
        log_r = self.multiplier.log_r(z, self._reading(z))
        return given_z + prior(self.bias, self.bias_log_sigma) + log_q - log_r

    def _multipliers(self, count: int, multiplier: Multiplier) -> Tensor:
        """Sample z (N, D) in training; else return its center (1, D)."""
        z: Tensor = multiplier(count) if self.training else multiplier.center()
        return z

    def _along_axis(self, z: Tensor) -> Tensor:
        """Reshape z (M, D) for the product with the weights, (M, ..., D, ...)."""
        shape = [len(z)] + [1] * self.weight.ndim
        shape[1 + self.z_axis] = -1
        return z.view(shape)

    def _reading(self, z: Tensor) -> Tensor:
        """Sample mean(tanh(c' W)) of weights given z (1, D), (): c' W is Gaussian, and sampled as such."""
        assert self.multiplier is not None
        reader = self.multiplier.reader
        weight = self.weight.movedim(self.z_axis, 0).flatten(1)  # (D, others)
        variance = (2 * self.weight_log_sigma).exp().movedim(self.z_axis, 0).flatten(1)
        mean = (reader * z[0]) @ weight
        spread = reader.square() @ variance
        return torch.tanh(perturbed(mean, spread, torch.randn_like(mean))).mean()


def flow_linear(
    inputs: int, outputs: int, *, sigma: float, hidden: int, length: int, auxiliary_hidden: int | None = None
) -> FlowLayer:
    """Make a dense layer with a z for each input."""
    shape = (outputs, inputs)
    return FlowLayer(
        shape, Dense(), sigma, z_axis=1, hidden=hidden, length=length, auxiliary_hidden=auxiliary_hidden
    )


def flow_convolution(
    inputs: int,
    outputs: int,
    size: int,
    stride: int = 1,
    padding: int = 0,
    *,
    sigma: float,
    hidden: int,
    length: int,
    auxiliary_hidden: int | None = None,
) -> FlowLayer:
    """Make a convolution with a z for each filter."""
    shape = (outputs, inputs, size, size)
    operation = Convolution(size, stride, padding)
    return FlowLayer(
        shape, operation, sigma, z_axis=0, hidden=hidden, length=length, auxiliary_hidden=auxiliary_hidden
    )
