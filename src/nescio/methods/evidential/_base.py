"""What the evidential methods share: a loss of their own, and the opinion that it reads from the outputs."""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache
from typing import ClassVar

from torch import Tensor, nn

from nescio._checks import require_number
from nescio.errors import InputError
from nescio.functional.evidence import EVIDENCE_FUNCTIONS
from nescio.losses import EvidentialLoss
from nescio.methods._shared import weight_penalty
from nescio.methods.base import Batch, Method, mean_loss
from nescio.opinions.opinion import Opinion


class EvidentialMethod(Method, abstract=True):
    """A method that trains with an evidential loss and predicts what that loss says of the outputs.

    A method of this kind is a frozen dataclass with a field `weight_decay`, and defines `_make_loss`.
    """

    takes_soft_labels: ClassVar[bool] = True

    weight_decay: float

    def __post_init__(self) -> None:
        # A loss takes functions too. The settings of a method go into model files, which hold names.
        evidence = getattr(self, "evidence", None)
        if callable(evidence):
            names = ", ".join(EVIDENCE_FUNCTIONS)
            raise InputError(f"evidence must be one of {names}, by its name, got {evidence!r}")
        require_number("weight_decay", self.weight_decay)
        self._make_loss(2, "mean")  # bad settings show here, not in the middle of a training

    @abstractmethod
    def _make_loss(self, num_classes: int, reduction: str) -> EvidentialLoss:
        """Make the loss with this method's settings."""

    def loss_for(self, num_classes: int, reduction: str = "mean") -> EvidentialLoss:
        """Make the loss for a number of classes, or return the one that was made for the same arguments.

        Args:
            num_classes: K.
            reduction: "mean", "sum" or "none".

        Returns:
            The loss with this method's settings.
        """
        return _cached_loss(self, num_classes, reduction)

    def objective(
        self, module: nn.Module, batch: Batch, epoch: float, num_train: int
    ) -> tuple[Tensor, Tensor]:
        """Compute the loss (), its KL term as annealed at this epoch, and the logits (N, K)."""
        logits = module(batch.inputs)
        num_classes = logits.shape[1]
        if batch.weights is None:
            value = self.loss_for(num_classes)(logits, batch.labels, epoch=epoch)
        else:
            losses = self.loss_for(num_classes, "none")(logits, batch.labels, epoch=epoch)
            value = mean_loss(losses, batch.weights)
        return value + weight_penalty(module, self.weight_decay), logits

    def interpret(self, logits: Tensor) -> Opinion:
        """Turn logits (N, K) into an opinion, with the evidence function and the prior of the loss."""
        return self.loss_for(logits.shape[1]).opinion(logits)


# Every batch asks for its loss, and to make one takes longer than to use it on a small batch.
@lru_cache(maxsize=64)
def _cached_loss(method: EvidentialMethod, num_classes: int, reduction: str) -> EvidentialLoss:
    return method._make_loss(num_classes, reduction)
