"""Re-EDL: R-EDL without a divergence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nescio.losses import EvidentialLoss
from nescio.methods.evidential._base import EvidentialMethod


@dataclass(frozen=True)
class ReEDL(EvidentialMethod):
    """EDL reduced to what its authors hold essential: probabilities from evidence and a prior, no divergence.

        e = f(logits),  alpha = e + lambda,  S = sum of alpha,  p = alpha / S,  uncertainty u = lambda K / S

    The loss of a sample is sum_j (y_j - p_j)^2 and nothing else: neither the variance of equation 5 nor a
    KL term, which takes from the evidence for wrong classes whatever its amount could tell.

    Args:
        prior: The prior lambda of each class: 0.1 as published for MNIST, 0.8 for CIFAR-10.
        evidence: The function f from logits to evidence, by its name: "softplus" as published, "exp" or
            "relu".
        weight_decay: Factor of half the squared weights of the dense layers, which is added to the mean loss.

    Raises:
        InputError: If a setting is not what it must be.

    Example:
        >>> import torch
        >>> from nescio import ReEDL
        >>> ReEDL(prior=0.8).interpret(torch.tensor([[2.0, -3.0, -3.0]]))
        Opinion(batch (1,), 3 classes, mean uncertainty 0.519, prior 0.8)
    """

    name: ClassVar[str] = "re-edl"
    about: ClassVar[str] = "EDL with a prior below 1, without variance and divergence"
    paper: ClassVar[str] = (
        "Chen et al. 2025, Revisiting Essential and Nonessential Settings of Evidential Deep Learning"
    )

    prior: float = 0.1
    evidence: str = "softplus"
    weight_decay: float = 0.0

    def _make_loss(self, num_classes: int, reduction: str) -> EvidentialLoss:
        return EvidentialLoss(
            num_classes,
            risk="brier",
            evidence=self.evidence,
            divergence_weight=0.0,
            annealing_epochs=0,
            reduction=reduction,
            prior=self.prior,
        )
