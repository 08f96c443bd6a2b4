"""EDL: evidential deep learning, the paper's method."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import init

from nescio._checks import require_number
from nescio.encoders import EncoderSpec
from nescio.errors import InputError
from nescio.losses import EvidentialLoss
from nescio.methods._shared import weight_penalty
from nescio.methods.base import Batch, Method, mean_loss
from nescio.opinions.opinion import Opinion


@dataclass(frozen=True)
class EDL(Method):
    """risk, evidence, divergence_weight, annealing_epochs: as EvidentialLoss; weight_decay: as Softmax.

    divergence_weight None: the library's rule, 1 for up to ten classes and (10 / K)^2 beyond.
    output_bias: where the biases of the last layer start; above 0 all ReLU evidence is alive at first.
    """

    name: ClassVar[str] = "edl"
    about: ClassVar[str] = "evidential: belief for every class and uncertainty from one pass"
    paper: ClassVar[str] = (
        "Sensoy et al. 2018, Evidential Deep Learning to Quantify Classification Uncertainty"
    )
    risk: str = "squared_error"
    evidence: str = "exp"
    divergence_weight: float | None = None
    annealing_epochs: float = 10
    weight_decay: float = 0.0
    output_bias: float = 0.0

    def __post_init__(self) -> None:
        require_number("weight_decay", self.weight_decay)
        if not math.isfinite(self.output_bias):
            raise InputError(f"output_bias must be a finite number, got {self.output_bias!r}")
        self.loss_for(2)  # bad settings show here, not in the middle of a training

    def build(self, encoder: EncoderSpec) -> nn.Module:
        """The network as it is: its outputs are read as evidence."""
        module = super().build(encoder)
        if self.output_bias:
            init.constant_(
                [layer for layer in module.modules() if isinstance(layer, nn.Linear)][-1].bias,
                self.output_bias,
            )
        return module

    def loss_for(self, num_classes: int, reduction: str = "mean") -> EvidentialLoss:
        """The loss for so many classes."""
        weight = self.divergence_weight
        if weight is None:
            weight = default_divergence_weight(num_classes)
        return EvidentialLoss(self.risk, self.evidence, weight, self.annealing_epochs, reduction=reduction)

    def objective(
        self, module: nn.Module, batch: Batch, epoch: float, num_train: int
    ) -> tuple[Tensor, Tensor]:
        """The evidential loss, its divergence as annealed at this epoch."""
        logits = module(batch.inputs)
        if batch.weights is None:
            value = self.loss_for(logits.shape[1])(logits, batch.labels, epoch=epoch)
        else:
            losses = self.loss_for(logits.shape[1], "none")(logits, batch.labels, epoch=epoch)
            value = mean_loss(losses, batch.weights)
        return value + weight_penalty(module, self.weight_decay), logits

    def interpret(self, logits: Tensor) -> Opinion:
        """Evidence."""
        return Opinion.from_logits(logits, self.evidence)


def default_divergence_weight(num_classes: int) -> float:
    """min(1, (10 / K)^2): the weight that trains at any number of classes.

    With K classes the pull of the risk towards the true one falls like 1 / K, and the divergence pushes
    K - 1 others down: at a weight of 1 a network of 200 classes never starts to learn.
    """
    return min(1.0, (10 / num_classes) ** 2)
