"""R-EDL: EDL whose prior is a setting, and whose risk has no variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nescio.losses import EvidentialLoss
from nescio.methods.evidential._base import EvidentialMethod


@dataclass(frozen=True)
class REDL(EvidentialMethod):
    """Relaxed EDL: the prior of each class is a setting, and only the mean of the Dirichlet is fitted.

    The smaller the prior lambda, the more the probabilities follow the proportions of the evidence, and the
    less its amount:

        e = f(logits),  alpha = e + lambda,  S = sum of alpha,  p = alpha / S,  uncertainty u = lambda K / S

    The loss of a sample is sum_j (y_j - p_j)^2, equation 5 of EDL without its variance, which falls with
    evidence of any kind, plus a weight that grows over the first epochs times
    KL(Dirichlet(alpha without the true class's evidence) || Dirichlet(lambda, ..., lambda)).

    Args:
        prior: The prior lambda of each class; 0.1 as published.
        evidence: The function f from logits to evidence, by its name: "softplus" as published, "exp" or
            "relu".
        divergence_weight: Weight of the KL term, 1 as published; "auto" for the library's rule by the number
            of classes.
        annealing_epochs: Number of epochs over which the KL term grows to its weight; 0 for none.
        weight_decay: Factor of half the squared weights of the dense layers, which is added to the mean loss.

    Raises:
        InputError: If a setting is not what it must be.

    Example:
        >>> import torch
        >>> from nescio import REDL
        >>> REDL().interpret(torch.tensor([[2.0, -3.0, -3.0]]))
        Opinion(batch (1,), 3 classes, mean uncertainty 0.119, prior 0.1)
    """

    name: ClassVar[str] = "r-edl"
    about: ClassVar[str] = "relaxed EDL: a prior below 1, and no variance in the loss"
    paper: ClassVar[str] = (
        "Chen et al. 2024, R-EDL: Relaxing Nonessential Settings of Evidential Deep Learning"
    )

    prior: float = 0.1
    evidence: str = "softplus"
    divergence_weight: float | str = 1.0
    annealing_epochs: float = 10
    weight_decay: float = 0.0

    def _make_loss(self, num_classes: int, reduction: str) -> EvidentialLoss:
        return EvidentialLoss(
            num_classes,
            risk="brier",
            evidence=self.evidence,
            divergence_weight=self.divergence_weight,
            annealing_epochs=self.annealing_epochs,
            reduction=reduction,
            prior=self.prior,
        )
