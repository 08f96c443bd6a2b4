"""Softmax: the usual classifier; with weight decay the paper's first baseline, L2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from nescio._checks import require_number
from nescio.methods._shared import softmax_loss, weight_penalty
from nescio.methods.base import Batch, Method


@dataclass(frozen=True)
class Softmax(Method):
    """The usual classifier: cross-entropy, and softmax of one pass.

    Args:
        weight_decay: Factor of half the squared weights of the dense layers, which is added to the mean loss.

    Raises:
        InputError: If weight_decay is no number from 0 on.

    Example:
        >>> import torch
        >>> Softmax().interpret(torch.zeros(1, 2)).probabilities
        tensor([[0.5000, 0.5000]])
    """

    name: ClassVar[str] = "softmax"
    about: ClassVar[str] = "softmax, the usual classifier; weight_decay above 0 holds its weights small"
    paper: ClassVar[str] = "Krogh & Hertz 1991, A Simple Weight Decay Can Improve Generalization"
    takes_soft_labels: ClassVar[bool] = True

    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        require_number("weight_decay", self.weight_decay)

    def objective(
        self, module: nn.Module, batch: Batch, epoch: float, num_train: int
    ) -> tuple[Tensor, Tensor]:
        """Compute the cross-entropy plus the weight penalty of the dense layers."""
        loss, logits = softmax_loss(module, batch)
        return loss + weight_penalty(module, self.weight_decay), logits
