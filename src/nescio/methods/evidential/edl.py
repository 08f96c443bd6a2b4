"""EDL: evidential deep learning, the paper's method."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import init

from nescio._checks import require_number
from nescio.encoders import EncoderSpec
from nescio.errors import InputError
from nescio.losses import AUTO, EvidentialLoss
from nescio.methods._shared import weight_penalty
from nescio.methods.base import Batch, Method, mean_loss
from nescio.opinions.opinion import Opinion


@dataclass(frozen=True)
class EDL(Method):
    """Evidential deep learning: belief for every class and uncertainty from one pass.

    Args:
        risk: As `EvidentialLoss`.
        evidence: As `EvidentialLoss`; by name, as it is stored in the model file.
        divergence_weight: As `EvidentialLoss`; None, as older model files have it, is "auto".
        annealing_epochs: As `EvidentialLoss`.
        weight_decay: As `Softmax`.
        output_bias: Where the biases of the last layer start; above 0 all ReLU evidence is alive at first.

    Raises:
        InputError: If a setting is not what it must be.

    Example:
        >>> from nescio import EDL
        >>> EDL(evidence="relu", divergence_weight=1.0).loss_for(10)
        EvidentialLoss(num_classes=10, risk=squared_error, evidence=relu, divergence_weight=1.0, \
annealing_epochs=10, reduction=mean)
    """

    name: ClassVar[str] = "edl"
    about: ClassVar[str] = "evidential: belief for every class and uncertainty from one pass"
    paper: ClassVar[str] = (
        "Sensoy et al. 2018, Evidential Deep Learning to Quantify Classification Uncertainty"
    )
    risk: str = "squared_error"
    evidence: str = "exp"
    divergence_weight: float | str | None = AUTO
    annealing_epochs: float = 10
    weight_decay: float = 0.0
    output_bias: float = 0.0

    def __post_init__(self) -> None:
        if self.divergence_weight is None:
            object.__setattr__(self, "divergence_weight", AUTO)
        require_number("weight_decay", self.weight_decay)
        if not math.isfinite(self.output_bias):
            raise InputError(f"output_bias must be a finite number, got {self.output_bias!r}")
        _make_loss(self, 2, "mean")  # bad settings show here, not in the middle of a training

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
        """The loss for so many classes; the same object for the same arguments."""
        return _kept_loss(self, num_classes, reduction)

    def objective(
        self, module: nn.Module, batch: Batch, epoch: float, num_train: int
    ) -> tuple[Tensor, Tensor]:
        """The evidential loss, its divergence as annealed at this epoch."""
        logits = module(batch.inputs)
        num_classes = logits.shape[1]
        if batch.weights is None:
            value = self.loss_for(num_classes)(logits, batch.labels, epoch=epoch)
        else:
            losses = self.loss_for(num_classes, "none")(logits, batch.labels, epoch=epoch)
            value = mean_loss(losses, batch.weights)
        return value + weight_penalty(module, self.weight_decay), logits

    def interpret(self, logits: Tensor) -> Opinion:
        """Evidence."""
        return Opinion.from_logits(logits, self.evidence)


def _make_loss(method: EDL, num_classes: int, reduction: str) -> EvidentialLoss:
    assert method.divergence_weight is not None
    return EvidentialLoss(
        num_classes,
        risk=method.risk,
        evidence=method.evidence,
        divergence_weight=method.divergence_weight,
        annealing_epochs=method.annealing_epochs,
        reduction=reduction,
    )


# Every batch asks for it, and to make a module takes longer than to use it on a small batch.
_kept_loss = lru_cache(maxsize=64)(_make_loss)
