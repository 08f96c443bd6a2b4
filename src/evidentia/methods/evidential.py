"""EDL: evidential deep learning, the paper's method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from evidentia.core.opinion import Opinion
from evidentia.losses import EvidentialLoss
from evidentia.methods.l2 import weight_penalty
from evidentia.methods.protocol import Batch, mean_loss
from evidentia.nets import NetworkSpec


@dataclass(frozen=True)
class EDL:
    """risk, evidence, divergence_weight, annealing_epochs: as EvidentialLoss; weight_decay: as L2.

    divergence_weight None: the library's rule, 1 for up to ten classes and (10 / K)^2 beyond.
    """

    name: ClassVar[str] = "edl"
    about: ClassVar[str] = "evidential: belief for each class and uncertainty, one forward pass"
    risk: str = "squared_error"
    evidence: str = "exp"
    divergence_weight: float | None = None
    annealing_epochs: float = 10
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        self.loss_for(2)  # bad settings show here, not in the middle of a training

    def build(self, network: NetworkSpec) -> nn.Module:
        """The network as it is: its outputs are read as evidence."""
        return network.build()

    def loss_for(self, num_classes: int, reduction: str = "mean") -> EvidentialLoss:
        """The loss for so many classes."""
        weight = self.divergence_weight
        if weight is None:
            weight = default_divergence_weight(num_classes)
        return EvidentialLoss(self.risk, self.evidence, weight, self.annealing_epochs, reduction=reduction)

    def objective(self, module: nn.Module, batch: Batch, epoch: float, size: int) -> tuple[Tensor, Tensor]:
        """The evidential loss, its divergence as annealed at this epoch."""
        logits = module(batch.inputs)
        if batch.weights is None:
            value = self.loss_for(logits.shape[1])(logits, batch.labels, epoch=epoch)
        else:
            losses = self.loss_for(logits.shape[1], "none")(logits, batch.labels, epoch=epoch)
            value = mean_loss(losses, batch.weights)
        return value + weight_penalty(module, self.weight_decay), logits

    def read(self, logits: Tensor) -> Opinion:
        """Evidence."""
        return Opinion.from_logits(logits, self.evidence)

    def predict(self, module: nn.Module, inputs: Tensor, generator: torch.Generator | None) -> Opinion:
        """One forward pass."""
        return self.read(module(inputs))


def default_divergence_weight(num_classes: int) -> float:
    """min(1, (10 / K)^2): the weight that trains at any number of classes.

    With K classes the pull of the risk towards the true one falls like 1 / K, and the divergence pushes
    K - 1 others down: at a weight of 1 a network of 200 classes never starts to learn.
    """
    return min(1.0, (10 / num_classes) ** 2)
