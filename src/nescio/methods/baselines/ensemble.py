"""Deep Ensemble: networks of their own seeds and data orders, each trained also on its adversarial inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nescio._checks import at_least_float32, require_number, require_whole
from nescio._kinds import InputKind
from nescio.data.preprocess import input_range_of
from nescio.encoders import EncoderSpec
from nescio.errors import InputError
from nescio.methods._shared import require_built_with, softmax_loss, weight_penalty
from nescio.methods.base import MOST_MEMBERS, Batch, Method


@dataclass(frozen=True)
class Ensemble(Method):
    """Deep Ensemble: the mean of softmax over networks with weights and data orders of their own.

    Each is trained on its inputs x and on x + epsilon * range * sign(d loss / d x), the fast gradient sign.

    Args:
        num_members: Number of networks, at most 1,000.
        epsilon: The adversarial step as a part of the inputs' range, from 0 (none) to below 1.
        weight_decay: Factor of half the squared weights of the dense layers, which is added to the mean loss.

    Raises:
        InputError: If a setting does not fit.

    Example:
        >>> from nescio.encoders import MLPSpec
        >>> method = Ensemble(num_members=3)
        >>> len(method.members(method.build(MLPSpec(4, 3))))
        3
    """

    name: ClassVar[str] = "ensemble"
    about: ClassVar[str] = (
        "Deep Ensemble: the mean of several networks, each trained on adversarial inputs too"
    )
    paper: ClassVar[str] = (
        "Lakshminarayanan et al. 2017, Simple and Scalable Predictive Uncertainty Estimation"
    )
    uses_input_range: ClassVar[bool] = True
    takes_soft_labels: ClassVar[bool] = True

    num_members: int = 5
    epsilon: float = 0.01
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        require_whole("num_members", self.num_members, most=MOST_MEMBERS)
        require_number("epsilon", self.epsilon)
        if self.epsilon >= 1:
            raise InputError(
                f"epsilon must be from 0 to 1, a part of the inputs' range, got {self.epsilon!r}"
            )
        require_number("weight_decay", self.weight_decay)

    @property
    def passes(self) -> int:
        """One for each member."""
        return self.num_members

    @property
    def trainings(self) -> int:
        """One for each member."""
        return self.num_members

    def default_encoder(self, encoder: EncoderSpec) -> EncoderSpec:
        """Switch dropout off."""
        return encoder.without_dropout()

    def build(self, encoder: EncoderSpec) -> nn.Module:
        """Build the members, each with weights of its own."""
        if encoder.inputs is InputKind.TEXTS and self.epsilon:
            raise InputError(
                f"the method ensemble moves its inputs a little, and the tokens that {encoder.kind} takes "
                "can't be moved: set epsilon to 0"
            )
        networks = []
        for _ in range(self.num_members):
            networks.append(super().build(encoder))
        return _MeanOfMembers(networks)

    def check_module(self, module: nn.Module) -> nn.Module:
        """Refuse a network of the user's own: the members must start from weights of their own."""
        if not isinstance(module, _MeanOfMembers):
            raise InputError("the method ensemble builds its members itself; give a network spec")
        require_built_with("num_members", len(module.networks), self.num_members)
        return module

    def members(self, module: nn.Module) -> list[nn.Module]:
        """List the members; each is trained as a network of its own."""
        return list(cast(_MeanOfMembers, module).networks)

    def objective(
        self, module: nn.Module, batch: Batch, epoch: float, num_train: int
    ) -> tuple[Tensor, Tensor]:
        """Average the cross-entropies of the inputs and of their adversarial neighbours."""
        if self.epsilon and module.training:
            loss, logits = self._adversarial(module, batch)
        else:
            loss, logits = softmax_loss(module, batch)
        return loss + weight_penalty(module, self.weight_decay), logits

    def _adversarial(self, module: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        inputs = batch.inputs.detach().requires_grad_()
        clean, logits = softmax_loss(module, batch._replace(inputs=inputs))
        weights = [weight for weight in module.parameters() if weight.requires_grad]
        slope, *slopes = torch.autograd.grad(clean, [inputs, *weights])
        clean = _Differentiated.apply(clean.detach(), slopes, *weights)  # type: ignore[no-untyped-call]
        adversarial, _ = softmax_loss(module, batch._replace(inputs=self._attacked(batch, slope)))
        return 0.5 * (clean + adversarial), logits.detach()

    def _attacked(self, batch: Batch, slope: Tensor) -> Tensor:
        """Move inputs (N, C, ...) by epsilon times their range up the loss: fast gradient sign."""
        input_range = batch.input_range
        if input_range is None:
            input_range = input_range_of(batch.inputs)
        axes_after_channels = [1] * (slope.ndim - 2)
        step = (self.epsilon * input_range).view(1, -1, *axes_after_channels)
        return batch.inputs + slope.sign() * step


class _Differentiated(torch.autograd.Function):
    """A loss whose slopes by the weights are known already, so that they are not computed again."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, slopes: list[Tensor], *weights: Tensor) -> Tensor:
        ctx.slopes = slopes
        return value.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *(gradient * slope for slope in ctx.slopes)


class _MeanOfMembers(nn.Module):
    """Networks side by side; their output is the logarithm of their mean probabilities."""

    def __init__(self, networks: list[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute logits (N, K) whose softmax is the mean of the members' probabilities."""
        logs = torch.stack([at_least_float32(network(inputs)).log_softmax(-1) for network in self.networks])
        return logs.logsumexp(0) - math.log(len(self.networks))
