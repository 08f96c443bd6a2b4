"""L2: softmax with weight decay, the usual classifier; the paper's first baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from evidentia.core.checks import as_computed
from evidentia.core.predictive import Prediction
from evidentia.methods.protocol import Batch, mean_loss
from evidentia.nets import NetworkSpec


@dataclass(frozen=True)
class L2:
    """weight_decay: this times half the squared weights of the dense layers is added to the mean loss."""

    name: ClassVar[str] = "l2"
    about: ClassVar[str] = "softmax with weight decay, one forward pass"
    weight_decay: float = 0.0

    def build(self, network: NetworkSpec) -> nn.Module:
        """The network as it is."""
        return network.build()

    def objective(self, module: nn.Module, batch: Batch, epoch: float, size: int) -> tuple[Tensor, Tensor]:
        """Cross-entropy, and the weights of the dense layers held small."""
        logits = as_computed(module(batch.inputs))
        if batch.weights is None:
            loss = cross_entropy(logits, batch.labels)
        else:
            loss = mean_loss(cross_entropy(logits, batch.labels, reduction="none"), batch.weights)
        return loss + weight_penalty(module, self.weight_decay), logits

    def read(self, logits: Tensor) -> Prediction:
        """Softmax."""
        return Prediction.from_logits(logits)

    def predict(self, module: nn.Module, inputs: Tensor, generator: torch.Generator | None) -> Prediction:
        """One forward pass."""
        return self.read(module(inputs))


def weight_penalty(module: nn.Module, decay: float) -> Tensor | float:
    """decay / 2 times the squared weights of the dense layers."""
    if not decay:
        return 0.0
    squares = [layer.weight.square().sum() for layer in module.modules() if isinstance(layer, nn.Linear)]
    return 0.5 * decay * torch.stack(squares).sum()
