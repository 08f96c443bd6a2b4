"""An ensemble of EDL networks, whose opinions are fused into one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from nescio._checks import at_least_float32, require_whole
from nescio.encoders import EncoderSpec
from nescio.errors import InputError
from nescio.functional.evidence import logits_for
from nescio.methods._shared import require_built_with
from nescio.methods.base import MOST_MEMBERS
from nescio.methods.evidential.edl import EDL
from nescio.opinions.fusion import fuse
from nescio.opinions.opinion import Opinion

FUSIONS = ("averaging", "cumulative", "weighted")


@dataclass(frozen=True)
class EDLEnsemble(EDL):
    """Several EDL networks with weights and data orders of their own; their opinions are fused.

    With evidence e_i of the M members the fused opinion has the evidence

        averaging: sum e_i / M,  cumulative: sum e_i,  weighted: sum c_i e_i / sum c_i with c_i = 1 - u_i

    The members have learned from the same data: averaging is the rule for that. Cumulative counts their
    evidence as if each had seen data of its own, and so is surer.

    Args:
        risk: What fits the labels, as of `EDL`.
        evidence: The function from logits to evidence, as of `EDL`.
        divergence_weight: Weight of the KL term, as of `EDL`.
        annealing_epochs: Number of epochs over which the KL term grows to its weight.
        weight_decay: Factor of half the squared weights of the dense layers, which is added to the mean loss.
        output_bias: Initial value of the biases of the last layer, as of `EDL`.
        num_members: Number of networks, at most 1,000.
        fusion: "averaging", "cumulative" or "weighted".

    Raises:
        InputError: If a setting is not what it must be.

    Example:
        >>> from nescio.encoders import MLPSpec
        >>> from nescio.methods import make_method
        >>> method = make_method("edl-ensemble", num_members=3)
        >>> len(method.members(method.build(MLPSpec(4, 3))))
        3
    """

    name: ClassVar[str] = "edl-ensemble"
    about: ClassVar[str] = "evidential: several EDL networks, whose opinions are fused"
    paper: ClassVar[str] = (
        "Sensoy et al. 2018, EDL; Lakshminarayanan et al. 2017, ensembles; Josang 2016, fusion of opinions"
    )

    num_members: int = 5
    fusion: str = "averaging"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("num_members", self.num_members, most=MOST_MEMBERS)
        if self.fusion not in FUSIONS:
            raise InputError(f"fusion must be one of {', '.join(FUSIONS)}, got {self.fusion!r}")

    @property
    def passes(self) -> int:
        """One for each member."""
        return self.num_members

    @property
    def trainings(self) -> int:
        """One for each member."""
        return self.num_members

    def build(self, encoder: EncoderSpec) -> nn.Module:
        """Build the members, each with weights of its own.

        Args:
            encoder: What to build.

        Returns:
            A network from inputs (N, ...) to logits (N, K), whose evidence is the fused one.
        """
        networks = []
        for _ in range(self.num_members):
            networks.append(super().build(encoder))
        return FusedNetworks(networks, self)

    def check_module(self, module: nn.Module) -> nn.Module:
        """Refuse a network of the user's own: the members must start from weights of their own.

        Args:
            module: Any network.

        Returns:
            The members, where they were built here.

        Raises:
            InputError: If it is anything else.
        """
        if not isinstance(module, FusedNetworks):
            raise InputError(f"the method {self.name} builds its members itself; give a network spec")
        built_by = module.method
        for setting in ("num_members", "fusion", "evidence"):
            require_built_with(setting, getattr(built_by, setting), getattr(self, setting))
        return module

    def members(self, module: nn.Module) -> list[nn.Module]:
        """List the members; each is trained as a network of its own."""
        return list(cast(FusedNetworks, module).networks)

    def predict(self, module: nn.Module, inputs: Tensor, generator: torch.Generator) -> Opinion:
        """Predict some inputs with every member, and fuse their opinions.

        Args:
            module: The members, in evaluation mode.
            inputs: Inputs (N, ...) as the members take them.
            generator: Is not used: nothing is drawn.

        Returns:
            The opinion on each.
        """
        return cast(FusedNetworks, module).opinion(inputs)


class FusedNetworks(nn.Module):
    """Networks side by side, whose opinions are fused.

    Args:
        networks: Modules from inputs (N, ...) to logits (N, K).
        method: Says how logits are read, and how opinions are fused.
    """

    def __init__(self, networks: list[nn.Module], method: EDLEnsemble) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.method = method

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (N, K) whose evidence is the fused one, as far as one network's can be."""
        return logits_for(self.method.evidence, self.opinion(inputs).evidence)

    def opinion(self, inputs: Tensor) -> Opinion:
        """The fused opinions on inputs (N, ...)."""
        opinions = []
        total: Tensor | None = None
        for network in self.networks:
            logits = at_least_float32(network(inputs))
            opinions.append(self.method.interpret(logits))
            total = logits if total is None else total + logits
        assert total is not None  # there is at least one member
        fused = fuse(opinions, self.method.fusion)
        # Where no member has any evidence, their outputs still have an order.
        labels = torch.where(fused.is_vacuous, total.argmax(1), fused.evidence.argmax(1))
        return Opinion(fused.evidence, fused.prior, labels)
