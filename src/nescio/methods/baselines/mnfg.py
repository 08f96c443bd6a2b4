"""MNFG: multiplicative normalizing flows over Gaussian weights, with a Gaussian prior."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from nescio._checks import require_whole
from nescio.encoders import Layers
from nescio.methods.baselines._flows import flow_convolution, flow_linear
from nescio.methods.baselines.ffgu import FFGU


@dataclass(frozen=True)
class MNFG(FFGU):
    """A Gaussian for every weight like FFGU, its mean multiplied by z, which a normalizing flow samples.

    Args:
        samples: Number of weight samples that a prediction averages.
        warm_up_epochs: Number of epochs over which the divergence grows to its full weight; 0 for none.
        initial_sigma: Standard deviation of every weight before training, above 0 and at most 1.
        flow_length: Number of steps of each flow; 0 gives FFGU.
        flow_hidden: Number of hidden units of a step.
        auxiliary_hidden: Number of hidden units of the flow r that bounds the divergence; None for as many as
            `flow_hidden`.

    Raises:
        InputError: If a setting does not fit.

    Example:
        >>> MNFG(flow_length=3).flow_hidden
        50
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

    def layers(self) -> Layers:
        """Give layers with a flow on each."""
        settings: dict[str, Any] = {
            "sigma": self.initial_sigma,
            "hidden": self.flow_hidden,
            "auxiliary_hidden": self.auxiliary_hidden,
            "length": self.flow_length,
        }
        return Layers(
            convolution=partial(flow_convolution, **settings),
            linear=partial(flow_linear, **settings),
        )
