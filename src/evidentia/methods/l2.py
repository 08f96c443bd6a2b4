"""L2: softmax with weight decay, the usual classifier; the paper's first baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from evidentia.methods.protocol import Batch
from evidentia.methods.softmax import SoftmaxMethod, require_decay, softmax_loss, weight_penalty


@dataclass(frozen=True)
class L2(SoftmaxMethod):
    """weight_decay: this times half the squared weights of the dense layers is added to the mean loss."""

    name: ClassVar[str] = "l2"
    about: ClassVar[str] = "softmax with weight decay: the usual classifier"
    paper: ClassVar[str] = "Krogh & Hertz 1991, A Simple Weight Decay Can Improve Generalization"
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        require_decay(self.weight_decay)

    def objective(self, module: nn.Module, batch: Batch, epoch: float, size: int) -> tuple[Tensor, Tensor]:
        """Cross-entropy, and the weights of the dense layers held small."""
        loss, logits = softmax_loss(module, batch)
        return loss + weight_penalty(module, self.weight_decay), logits
