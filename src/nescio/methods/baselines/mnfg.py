"""MNFG: multiplicative normalizing flows over Gaussian weights, with a Gaussian prior."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from torch import nn

from nescio._checks import require_whole
from nescio.encoders import Layers, NetworkSpec
from nescio.methods.baselines._flows import flow_convolution, flow_linear
from nescio.methods.baselines.gaussian import FFGU


@dataclass(frozen=True)
class MNFG(FFGU):
    """samples, warm_up_epochs, initial_sigma: as FFGU.

    flow_length, flow_hidden: steps of each flow and hidden units of a step; a length of 0 gives FFGU.
    auxiliary_hidden: hidden units of the flow r that bounds the divergence; None: as many as flow_hidden.
    """

    name: ClassVar[str] = "mnfg"
    about: ClassVar[str] = "Gaussian weights scaled by a normalizing flow: the mean of many draws of them"
    paper: ClassVar[str] = "Louizos & Welling 2017, Multiplicative Normalizing Flows"
    flow_length: int = 2
    flow_hidden: int = 50
    auxiliary_hidden: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("flow_length", self.flow_length, least=0)
        require_whole("flow_hidden", self.flow_hidden)
        if self.auxiliary_hidden is not None:
            require_whole("auxiliary_hidden", self.auxiliary_hidden)

    def build(self, network: NetworkSpec) -> nn.Module:
        """The network with a flow on every layer."""
        settings: dict[str, Any] = {
            "sigma": self.initial_sigma,
            "hidden": self.flow_hidden,
            "auxiliary_hidden": self.auxiliary_hidden,
            "length": self.flow_length,
        }
        return network.build(Layers(partial(flow_convolution, **settings), partial(flow_linear, **settings)))
