"""L2: softmax with weight decay, the usual classifier; the paper's first baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from nescio.core.checks import require_number
from nescio.methods.protocol import Batch, Method
from nescio.methods.softmax import softmax_loss, weight_penalty


@dataclass(frozen=True)
class L2(Method):
    """weight_decay: this times half the squared weights of the dense layers is added to the mean loss."""

    name: ClassVar[str] = "l2"
    about: ClassVar[str] = "softmax, the usual classifier; weight_decay above 0 holds its weights small"
    paper: ClassVar[str] = "Krogh & Hertz 1991, A Simple Weight Decay Can Improve Generalization"
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        require_number("weight_decay", self.weight_decay)

    def objective(self, module: nn.Module, batch: Batch, epoch: float, size: int) -> tuple[Tensor, Tensor]:
        """Cross-entropy, and the weights of the dense layers held small."""
        loss, logits = softmax_loss(module, batch)
        return loss + weight_penalty(module, self.weight_decay), logits
