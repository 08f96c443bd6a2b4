"""A method: the hinge loss of Weston & Watkins, read as softmax."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import multi_margin_loss

from nescio.errors import InputError
from nescio.methods import Batch, Method, mean_loss


@dataclass(frozen=True)
class Hinge(Method):
    """margin: by how much the true class is to lead."""

    name: ClassVar[str] = "hinge"
    about: ClassVar[str] = "the true class is to lead all others by a margin"
    paper: ClassVar[str] = "Weston & Watkins 1999, Multi-class Support Vector Machines"
    margin: float = 1.0

    def __post_init__(self) -> None:
        if not self.margin > 0:
            raise InputError(f"margin must be above 0, got {self.margin!r}")

    def objective(
        self, module: nn.Module, batch: Batch, epoch: float, num_train: int
    ) -> tuple[Tensor, Tensor]:
        """The mean hinge loss, in float32 or wider."""
        logits = module(batch.inputs)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        losses = multi_margin_loss(logits, batch.labels, margin=self.margin, reduction="none")
        return mean_loss(losses, batch.weights), logits
