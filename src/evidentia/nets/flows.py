"""Multiplicative normalizing flows (Louizos & Welling 2017): layers whose mean weights are scaled by a z
that a flow draws, so that weights depend on each other.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import logsigmoid

from evidentia.core.checks import as_computed
from evidentia.nets.bayesian import (
    Divergence,
    GaussianLayer,
    Operation,
    convolution,
    drawn_normal,
    normal_divergence,
)

START_SIGMA = 0.1  # of z, around one
OPEN_GATE = 2.0  # the gates' bias at the start: most of z passes


class FlowStep(nn.Module):
    """z (M, D) with one half of its units kept and the other gated by what the first says.

    h = tanh(f(m z)), g = sigmoid(k(h)), z' = m z + (1 - m) (g z + (1 - g) u(h)); the equations of Louizos &
    Welling, section 3.2, with masks m that alternate instead of being drawn, so that the flow is a function.
    """

    mask: Tensor

    def __init__(self, size: int, hidden: int, parity: int) -> None:
        super().__init__()
        self.register_buffer("mask", (torch.arange(size) % 2 == parity).float(), persistent=False)
        self.hidden = nn.Linear(size, hidden)
        self.shift = nn.Linear(hidden, size)
        self.gate = nn.Linear(hidden, size)
        for layer in (self.shift, self.gate):
            nn.init.normal_(layer.weight, std=0.01)
        nn.init.ones_(self.shift.bias)
        nn.init.constant_(self.gate.bias, OPEN_GATE)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """z' (M, D) and log |det dz'/dz| (M,)."""
        moved = 1 - self.mask
        hidden = torch.tanh(self.hidden(z * self.mask))
        opening = self.gate(hidden)
        updated = torch.lerp(self.shift(hidden), z, torch.sigmoid(opening))
        return torch.where(self.mask > 0, z, updated), (moved * logsigmoid(opening)).sum(1)


class Flow(nn.Module):
    """Steps, one after the other."""

    def __init__(self, size: int, hidden: int, length: int) -> None:
        super().__init__()
        self.steps = nn.ModuleList(FlowStep(size, hidden, step % 2) for step in range(length))

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """z after all steps (M, D) and the sum of their log-determinants (M,)."""
        total = z.new_zeros(len(z))
        for step in self.steps:
            z, log_determinant = step(z)
            total = total + log_determinant
        return z, total


class Multiplier(nn.Module):
    """q(z), a Gaussian sent through a flow, and r(z | W), which bounds what z adds to the divergence."""

    def __init__(self, size: int, hidden: int, length: int) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.ones(size))
        self.log_sigma = nn.Parameter(torch.full((size,), math.log(START_SIGMA)))
        self.flow = Flow(size, hidden, length)
        self.inverse = Flow(size, hidden, length)
        self.reader = nn.Parameter(torch.randn(size) / math.sqrt(size))  # c
        self.mean_scale = nn.Parameter(0.1 * torch.randn(size))  # b1
        self.spread_scale = nn.Parameter(0.1 * torch.randn(size))  # b2

    def forward(self, count: int) -> tuple[Tensor, Tensor]:
        """count draws of z (M, D) and their log-determinants (M,)."""
        noise = torch.randn(count, len(self.mean), dtype=self.mean.dtype, device=self.mean.device)
        z, log_determinant = self.flow(torch.addcmul(self.mean, self.log_sigma.exp(), noise))
        return z, log_determinant

    def center(self) -> Tensor:
        """z (D,) where the Gaussian is at its mean."""
        z: Tensor = self.flow(self.mean[None])[0][0]
        return z

    def draw(self, generator: torch.Generator | None) -> Tensor:
        """One z (D,)."""
        z: Tensor = self.flow(drawn_normal(self.mean, self.log_sigma, generator)[None])[0][0]
        return z

    def log_q(self, log_determinant: Tensor) -> Tensor:
        """log q(z) in expectation over the Gaussian's own noise, ()."""
        entropy = 0.5 * math.log(2 * math.pi * math.e) + self.log_sigma
        return -entropy.sum() - log_determinant.mean()

    def log_r(self, z: Tensor, reading: Tensor) -> Tensor:
        """log r(z | W) of one z (D,), (); reading: what tanh leaves of the weights, a mean ()."""
        base, log_determinant = self.inverse(z[None])
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
    ) -> None:
        super().__init__(shape, operation, sigma)
        self.z_axis = z_axis
        self.multiplier = Multiplier(shape[z_axis], hidden, length) if length else None

    def mean_output(self, inputs: Tensor) -> Tensor:
        """The mean of the outputs; in training with a z of its own for each sample."""
        z = self._multipliers(len(inputs))  # (N or 1, D)
        if self.z_axis == 1:
            return self.operation(inputs * z, self.weight, self.bias)
        return self.operation(inputs, self.weight, None) * z[:, :, None, None] + self.bias[:, None, None]

    def draw(self, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """z, then weight and bias, from the posterior."""
        if self.multiplier is None:
            return super().draw(generator)
        mean = self.weight * self._along_axis(self.multiplier.draw(generator))
        return (
            drawn_normal(mean, self.weight_log_sigma, generator),
            drawn_normal(self.bias, self.bias_log_sigma, generator),
        )

    def divergence(self, prior: Divergence) -> Tensor:
        """A bound on the KL from the prior, estimated with one z: E[KL(q(W|z) // p) + log q(z) - log r(z|W)]."""
        if self.multiplier is None:
            return super().divergence(prior)
        z, log_determinant = self.multiplier(1)
        given_z = prior(
            as_computed(self.weight) * self._along_axis(z[0]), as_computed(self.weight_log_sigma)
        ) + prior(as_computed(self.bias), as_computed(self.bias_log_sigma))
        log_r = self.multiplier.log_r(z[0], self._reading(z[0]))
        return given_z + self.multiplier.log_q(log_determinant) - log_r

    def _multipliers(self, count: int) -> Tensor:
        if self.multiplier is None:
            return self.weight.new_ones(1, self.weight.shape[self.z_axis])
        return self.multiplier(count)[0] if self.training else self.multiplier.center()[None]

    def _along_axis(self, z: Tensor) -> Tensor:
        shape = [1] * self.weight.ndim
        shape[self.z_axis] = -1
        return z.view(shape)

    def _reading(self, z: Tensor) -> Tensor:
        """mean(tanh(c' W)) for weights given z, (): c' W is Gaussian, and drawn as such."""
        assert self.multiplier is not None
        reader = self.multiplier.reader
        weight = self.weight.movedim(self.z_axis, 0).flatten(1)  # (D, others)
        variance = (2 * self.weight_log_sigma).exp().movedim(self.z_axis, 0).flatten(1)
        mean = (reader * z) @ weight
        sigma = (reader.square() @ variance).sqrt()
        return torch.tanh(torch.addcmul(mean, sigma, torch.randn_like(mean))).mean()


def flow_linear(inputs: int, outputs: int, *, sigma: float, hidden: int, length: int) -> FlowLayer:
    """A dense layer with a z for each input."""
    shape = (outputs, inputs)
    return FlowLayer(shape, functional.linear, sigma, z_axis=1, hidden=hidden, length=length)


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
) -> FlowLayer:
    """A convolution with a z for each filter."""
    shape, operation = (outputs, inputs, size, size), convolution(stride, padding)
    return FlowLayer(shape, operation, sigma, z_axis=0, hidden=hidden, length=length)
