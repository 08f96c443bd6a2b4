"""RED: EDL that learns from samples without evidence too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nescio.losses import EvidentialLoss, REDLoss
from nescio.methods.evidential._base import EvidentialMethod


@dataclass(frozen=True)
class RED(EvidentialMethod):
    """Regularised EDL: the output of the true class is rewarded where there is little evidence.

    Where an evidence function is flat, a sample without evidence has no gradient, and EDL learns nothing from
    it. RED adds to the loss of a sample

        -u z_y,  u = K / S as a constant,  z_y the raw output of the true class

    so that it has the gradient -u there, and nearly none where there is much evidence. Predictions are those
    of EDL.

    Args:
        risk: What fits the labels: "type2" (equation 3 of EDL) as in the authors' code, "squared_error" (5),
            "cross_entropy" (4) or "brier" (5 without its variance).
        evidence: The function from logits to evidence, by its name: "exp" as in the authors' code, "relu" or
            "softplus".
        divergence_weight: Weight of the KL term, 1 as in the authors' code; "auto" for the library's rule by
            the number of classes.
        annealing_epochs: Number of epochs over which the KL term grows to its weight; 0 for none.
        weight_decay: Factor of half the squared weights of the dense layers, which is added to the mean loss.

    Raises:
        InputError: If a setting is not what it must be.

    Example:
        >>> from nescio import RED
        >>> RED(evidence="relu").loss_for(10)
        REDLoss(num_classes=10, risk=type2, evidence=relu, divergence_weight=1.0, annealing_epochs=10, \
reduction=mean)
    """

    name: ClassVar[str] = "red"
    about: ClassVar[str] = "EDL with a reward for the true class, as large as the uncertainty"
    paper: ClassVar[str] = (
        "Pandey and Yu 2023, Learn to Accumulate Evidence from All Training Samples: Theory and Practice"
    )

    risk: str = "type2"
    evidence: str = "exp"
    divergence_weight: float | str = 1.0
    annealing_epochs: float = 10
    weight_decay: float = 0.0

    def _make_loss(self, num_classes: int, reduction: str) -> EvidentialLoss:
        return REDLoss(
            num_classes,
            risk=self.risk,
            evidence=self.evidence,
            divergence_weight=self.divergence_weight,
            annealing_epochs=self.annealing_epochs,
            reduction=reduction,
        )
