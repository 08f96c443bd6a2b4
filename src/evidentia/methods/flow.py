"""MNFG: multiplicative normalizing flows over Gaussian weights, with a Gaussian prior."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from torch import Tensor, nn

from evidentia.errors import InputError
from evidentia.losses.annealing import linear
from evidentia.methods.gaussian import GaussianMethod, require_bayesian, variational_loss
from evidentia.methods.protocol import Batch
from evidentia.nets import Layers, NetworkSpec
from evidentia.nets.bayesian import normal_divergence
from evidentia.nets.flows import flow_convolution, flow_linear


@dataclass(frozen=True)
class MNFG(GaussianMethod):
    """samples, warm_up_epochs, initial_sigma: as FFGU.

    flow_length, flow_hidden: steps of each flow and hidden units of a step; a length of 0 gives FFGU.
    """

    name: ClassVar[str] = "mnfg"
    about: ClassVar[str] = "Gaussian weights scaled by a normalizing flow: the mean of many draws of them"
    paper: ClassVar[str] = "Louizos & Welling 2017, Multiplicative Normalizing Flows"
    samples: int = 20
    warm_up_epochs: float = 0
    initial_sigma: float = 0.01
    flow_length: int = 2
    flow_hidden: int = 50

    def __post_init__(self) -> None:
        require_bayesian(self.samples, self.warm_up_epochs, self.initial_sigma)
        for name, least in (("flow_length", 0), ("flow_hidden", 1)):
            if not (isinstance(getattr(self, name), int) and getattr(self, name) >= least):
                raise InputError(
                    f"{name} must be a whole number from {least} on, got {getattr(self, name)!r}"
                )

    def build(self, network: NetworkSpec) -> nn.Module:
        """The network with a flow on every layer."""
        settings: dict[str, Any] = {
            "sigma": self.initial_sigma,
            "hidden": self.flow_hidden,
            "length": self.flow_length,
        }
        return network.build(Layers(partial(flow_convolution, **settings), partial(flow_linear, **settings)))

    def objective(self, module: nn.Module, batch: Batch, epoch: float, size: int) -> tuple[Tensor, Tensor]:
        """Cross-entropy, and a bound on the divergence from the prior as each sample's share of it."""
        weight = linear(epoch, self.warm_up_epochs) / size
        return variational_loss(module, batch, normal_divergence, weight)
