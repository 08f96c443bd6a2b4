"""Deep Ensemble: networks of their own seeds and data orders, each trained also on its adversarial inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nescio._checks import as_computed, require_number, require_whole
from nescio.data.preprocess import input_range_of
from nescio.encoders import NetworkSpec
from nescio.errors import InputError
from nescio.methods._shared import softmax_loss, weight_penalty
from nescio.methods.base import Batch, Method


@dataclass(frozen=True)
class Ensemble(Method):
    """num_members: how many networks; weight_decay: as Softmax.

    epsilon: the adversarial step as a part of the inputs' range, 0 for none.
    """

    name: ClassVar[str] = "ensemble"
    about: ClassVar[str] = (
        "Deep Ensemble: the mean of several networks, each trained on adversarial inputs too"
    )
    paper: ClassVar[str] = (
        "Lakshminarayanan et al. 2017, Simple and Scalable Prediction Uncertainty Estimation"
    )
    num_members: int = 5
    epsilon: float = 0.01
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        require_whole("num_members", self.num_members)
        require_number("epsilon", self.epsilon)
        if self.epsilon >= 1:
            raise InputError(
                f"epsilon must be from 0 to 1, a part of the inputs' range, got {self.epsilon!r}"
            )
        require_number("weight_decay", self.weight_decay)

    @property
    def passes(self) -> int:
        """One a member."""
        return self.num_members

    @property
    def trainings(self) -> int:
        """One a member."""
        return self.num_members

    def default_encoder(self, network: Any) -> Any:
        """Without dropout."""
        return replace(network, dropout=0.0)

    def build(self, network: NetworkSpec) -> nn.Module:
        """The members, each with weights of its own."""
        return MeanOfMembers(network.build() for _ in range(self.num_members))

    def check_module(self, module: nn.Module) -> nn.Module:
        """None: its members must start from weights of their own."""
        if not isinstance(module, MeanOfMembers):
            raise InputError("the method ensemble builds its members itself; give a network spec")
        return module

    def members(self, module: nn.Module) -> list[nn.Module]:
        """Each is trained as a network of its own."""
        return list(cast(MeanOfMembers, module).networks)

    def objective(
        self, module: nn.Module, batch: Batch, epoch: float, num_train: int
    ) -> tuple[Tensor, Tensor]:
        """The mean of the cross-entropies of the inputs and of their adversarial neighbours."""
        if not (self.epsilon and module.training):
            loss, logits = softmax_loss(module, batch)
        else:
            loss, logits = self._adversarial(module, batch)
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
        """A step of epsilon times the range up the loss (N, C, ...): fast gradient sign."""
        input_range = input_range_of(batch.inputs) if batch.input_range is None else batch.input_range
        return batch.inputs + slope.sign() * (self.epsilon * input_range).view(1, -1, *[1] * (slope.ndim - 2))


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


class MeanOfMembers(nn.Module):
    """Networks side by side; their output is the logarithm of their mean probabilities."""

    def __init__(self, networks: Any) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, inputs: Tensor) -> Tensor:
        """(N, K): a softmax of it gives the mean probabilities back."""
        logs = torch.stack([as_computed(network(inputs)).log_softmax(-1) for network in self.networks])
        return logs.logsumexp(0) - math.log(len(self.networks))
