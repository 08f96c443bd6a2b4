"""EvidentialLoss: the whole loss as a module; it holds settings and calls the functions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nescio._checks import as_computed, describe, looks_at_values, require_floating, require_number
from nescio.errors import InputError
from nescio.functional import annealing
from nescio.functional._kernels.rowwise import RowLoss
from nescio.functional.evidence import ACTIVATIONS, IDENTITY, EvidenceFunction, evidence_function
from nescio.functional.risks import IGNORE_INDEX, RISKS, total_loss

REDUCTIONS = ("mean", "sum", "none")


class EvidentialLoss(nn.Module):
    """risk + divergence_weight * min(1, epoch / annealing_epochs) * misleading divergence.

    risk: "squared_error" (equation 5), "cross_entropy" (4) or "type2" (3).
    evidence: "exp", "relu", "softplus" or a function from logits to evidence.
    annealing_epochs: over how many epochs the divergence grows to its weight; 0 for none.
    class_weight: a weight for each class (K,); the mean is then the weighted mean, as in torch.
    validate: look at the values of logits and targets; default on the CPU only, where it is cheap.
    """

    class_weight: Tensor | None

    def __init__(
        self,
        risk: str = "squared_error",
        evidence: str | EvidenceFunction = "exp",
        divergence_weight: float = 1.0,
        annealing_epochs: float = 10,
        class_weight: Tensor | None = None,
        ignore_index: int = IGNORE_INDEX,
        reduction: str = "mean",
        *,
        validate: bool | None = None,
    ) -> None:
        super().__init__()
        _require_one_of("risk", risk, tuple(RISKS))
        _require_one_of("reduction", reduction, REDUCTIONS)
        require_number("divergence_weight", divergence_weight)
        require_number("annealing_epochs", annealing_epochs)
        evidence_function(evidence)
        self.risk, self.evidence, self.reduction = risk, evidence, reduction
        self.divergence_weight, self.annealing_epochs = divergence_weight, annealing_epochs
        self.ignore_index, self.validate = ignore_index, validate
        self.register_buffer("class_weight", _checked_class_weight(class_weight), persistent=False)

    @classmethod
    def paper(cls) -> EvidentialLoss:
        """Exactly the paper's choice: relu, squared error, weight 1, annealed over ten epochs."""
        return cls("squared_error", "relu", divergence_weight=1.0, annealing_epochs=10)

    def forward(self, logits: Tensor, targets: Tensor, epoch: float | None = None) -> Tensor:
        """The loss of logits (N, K, d1, ...) for class indices (N, d1, ...) or soft labels (N, K, d1, ...).

        epoch: how far the training is, in epochs, fractions included; needed while annealing is on.
        """
        require_floating("logits", logits, class_axis=1)
        self._require_weights(logits.shape[1])
        name, x, loss = self._row_loss(as_computed(logits), self._weight_at(epoch))
        if self.reduction == "mean" and self.class_weight is None:
            loss = loss._replace(expected_scale=logits.shape[1] / max(logits.numel(), 1))
        value, ignored = total_loss(name, x, targets, loss, self.ignore_index, self.validate)
        return self._reduced(value, self._sample_weight(targets, value), ignored)

    def extra_repr(self) -> str:
        """What stands between the brackets of its repr."""
        name = self.evidence if isinstance(self.evidence, str) else "a function"
        return (
            f"risk={self.risk}, evidence={name}, divergence_weight={self.divergence_weight}, "
            f"annealing_epochs={self.annealing_epochs}, reduction={self.reduction}"
        )

    def _weight_at(self, epoch: float | None) -> float:
        if self.annealing_epochs and epoch is None:
            raise InputError(
                f"epoch must be given while annealing is on (annealing_epochs={self.annealing_epochs}): "
                "call loss(logits, targets, epoch=...), or set annealing_epochs=0"
            )
        return self.divergence_weight * annealing.linear(epoch or 0.0, self.annealing_epochs)

    def _row_loss(self, logits: Tensor, weight: float) -> tuple[str, Tensor, RowLoss]:
        """What to evaluate: logits for a function known here, evidence for the user's own."""
        if isinstance(self.evidence, str):
            return "logits", logits, RowLoss(ACTIVATIONS[self.evidence], RISKS[self.risk], weight)
        evidence = as_computed(self.evidence(logits))
        if evidence.shape != logits.shape:
            raise InputError(
                f"the evidence function must keep the shape {tuple(logits.shape)}, gave {describe(evidence)}"
            )
        if looks_at_values(evidence, self.validate) and not bool((evidence >= 0).all()):
            raise InputError(f"the evidence function must give zero or more, gave {float(evidence.min()):g}")
        return "evidence", evidence, RowLoss(IDENTITY, RISKS[self.risk], weight)

    def _require_weights(self, num_classes: int) -> None:
        if self.class_weight is not None and len(self.class_weight) != num_classes:
            raise InputError(
                f"class_weight must have one weight for each of {num_classes} classes, "
                f"got {len(self.class_weight)}"
            )

    def _reduced(self, value: Tensor, weight: Tensor | None, ignored: Tensor | None) -> Tensor:
        """Of the losses (N, d1, ...): themselves, their sum, or their mean over what counts."""
        if weight is not None:
            value = value * weight
        if self.reduction == "none":
            return value
        if self.reduction == "sum":
            return value.sum()
        if weight is not None:
            weight = weight if ignored is None else weight.masked_fill(ignored, 0.0)
            return value.sum() / weight.sum().clamp_min(torch.finfo(weight.dtype).tiny)
        if ignored is None:
            return value.sum() / max(value.numel(), 1)
        return value.sum() / (~ignored).sum().clamp_min(1)

    def _sample_weight(self, targets: Tensor, value: Tensor) -> Tensor | None:
        """The weight of each sample (N, d1, ...), as precise as the losses; None without class weights."""
        if self.class_weight is None:
            return None
        weight = self.class_weight.to(value.dtype)
        if not targets.is_floating_point():
            return weight[targets.clamp(0, len(weight) - 1)]
        return (targets.movedim(1, -1).to(value.dtype) * weight).sum(-1)


def _require_one_of(name: str, value: str, names: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in names:
        raise InputError(f"{name} must be one of {', '.join(names)}, got {value!r}")


def _checked_class_weight(weight: Tensor | None) -> Tensor | None:
    if weight is None:
        return None
    if (
        not isinstance(weight, Tensor)
        or weight.ndim != 1
        or not bool(((weight >= 0) & weight.isfinite()).all())
    ):
        got = weight.tolist() if isinstance(weight, Tensor) else describe(weight)
        raise InputError(f"class_weight must be a tensor of weights (K,), zero or more, got {got}")
    return weight.clone() if weight.is_floating_point() else weight.float()
