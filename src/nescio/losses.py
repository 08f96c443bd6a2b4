"""EvidentialLoss and its successors: whole losses as modules, which hold settings and call the functions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nescio._checks import (
    at_least_float32,
    describe,
    looks_at_values,
    require_floating,
    require_number,
    require_prior,
    require_whole,
)
from nescio.errors import InputError
from nescio.functional import correct_evidence_regularizer, default_divergence_weight, linear_annealing
from nescio.functional._kernels.rowwise import Risk, RowLoss
from nescio.functional._risk_formulas import RISKS
from nescio.functional.evidence import ACTIVATIONS, IDENTITY, EvidenceFunction, evidence_function
from nescio.functional.fisher import information_risk
from nescio.functional.risks import IGNORE_INDEX, mean_loss, total_loss
from nescio.opinions.opinion import Opinion

AUTO = "auto"
REDUCTIONS = ("mean", "sum", "none")


class EvidentialLoss(nn.Module):
    """The loss of an evidential classifier, instead of cross-entropy.

    risk + divergence_weight * min(1, epoch / annealing_epochs) * misleading divergence

    Args:
        num_classes: K; logits with another number of classes are then refused. Without it, any number goes.
        risk: "cross_entropy" (equation 4 of the paper), "squared_error" (5), "type2" (3) or "brier"
            (5 without its variance, as in R-EDL).
        evidence: "exp", "relu", "softplus" or a function from logits to evidence.
        divergence_weight: Weight of the divergence; "auto" for the library's rule, 0.1 min(1, (10 / K)^2.5),
            with type2 0.1 min(1, (10 / K)^2), with squared_error and brier min(1, (10 / K)^2): with it a
            network learns at any number of classes (`nescio.functional.default_divergence_weight`).
        annealing_epochs: Number of epochs over which the divergence grows to its weight; 0 for none.
        class_weight: A weight for each class (K,); the mean is then the weighted mean, as in torch.
        ignore_index: Class index of samples that do not count.
        reduction: "mean", "sum" or "none".
        prior: Prior of each class in alpha = evidence + prior; 1 in the paper.
        validate: Whether to look at the values of logits and targets; by default on the CPU only, where that
            is cheap.

    Raises:
        InputError: If a setting is not one of these.

    Example:
        >>> import torch
        >>> from nescio import EvidentialLoss
        >>> loss = EvidentialLoss(num_classes=3)
        >>> logits = torch.tensor([[2.0, -1.0, 0.0]], requires_grad=True)
        >>> loss(logits, torch.tensor([0]), epoch=0.5).backward()  # instead of cross_entropy(logits, labels)
        >>> loss.opinion(logits)
        Opinion(batch (1,), 3 classes, mean uncertainty 0.255)
    """

    class_weight: Tensor | None

    def __init__(
        self,
        num_classes: int | None = None,
        risk: str = "cross_entropy",
        evidence: str | EvidenceFunction = "exp",
        divergence_weight: float | str = AUTO,
        annealing_epochs: float = 10,
        class_weight: Tensor | None = None,
        ignore_index: int = IGNORE_INDEX,
        reduction: str = "mean",
        *,
        prior: float = 1.0,
        validate: bool | None = None,
    ) -> None:
        super().__init__()
        if num_classes is not None:
            require_whole("num_classes", num_classes, least=2)
        _require_one_of("risk", risk, tuple(RISKS))
        _require_one_of("reduction", reduction, REDUCTIONS)
        _require_divergence_weight(divergence_weight)
        require_number("annealing_epochs", annealing_epochs)
        evidence_function(evidence)
        self.num_classes = num_classes
        self.risk = risk
        self.evidence = evidence
        self.divergence_weight = divergence_weight
        self.annealing_epochs = annealing_epochs
        self.ignore_index = ignore_index
        self.reduction = reduction
        self.prior = require_prior(prior)
        self.validate = validate
        self.register_buffer("class_weight", _checked_class_weight(class_weight), persistent=False)

    @staticmethod
    def paper(num_classes: int | None = None) -> EvidentialLoss:
        """Exactly the paper's choice: relu, squared error, weight 1, annealed over ten epochs.

        Args:
            num_classes: K, or None for any number.

        Returns:
            The loss.

        Example:
            >>> from nescio import EvidentialLoss
            >>> EvidentialLoss.paper()
            EvidentialLoss(risk=squared_error, evidence=relu, divergence_weight=1.0, \
annealing_epochs=10, reduction=mean)
        """
        return EvidentialLoss(
            num_classes, "squared_error", evidence="relu", divergence_weight=1.0, annealing_epochs=10
        )

    def forward(self, logits: Tensor, targets: Tensor, epoch: float | None = None) -> Tensor:
        """The loss of a batch.

        Args:
            logits: The network's outputs (N, K, d1, ...), the class on axis 1.
            targets: Class indices (N, d1, ...) int64, or soft labels (N, K, d1, ...) that sum to one.
            epoch: How far the training is, in epochs, fractions included; needed while annealing is on.

        Returns:
            The loss, () or with reduction "none" (N, d1, ...).

        Raises:
            InputError: If shapes, types, the number of classes or values do not fit, or epoch is missing.

        Example:
            >>> import torch
            >>> from nescio import EvidentialLoss
            >>> loss = EvidentialLoss(reduction="none")
            >>> loss(torch.tensor([[2.0, -1.0], [2.0, -1.0]]), torch.tensor([0, 1]), epoch=10)
            tensor([0.1641, 2.4453])
        """
        require_floating("logits", logits, class_axis=1)
        num_classes = logits.shape[1]
        self._require_classes(num_classes)
        logits = at_least_float32(logits)
        weight = self._weight_at(epoch, num_classes)
        if self.reduction == "mean" and self.class_weight is None:
            mean = self._mean_at_once(logits, targets, weight)
            if mean is not None:
                return mean
        value, ignored = self._loss_of_each(logits, targets, weight)
        return self._reduced(value, self._sample_weight(targets, value), ignored)

    def opinion(self, logits: Tensor) -> Opinion:
        """What a network trained with this loss says by its outputs.

        Read with the loss's own evidence function, prior and class axis.

        Args:
            logits: The network's outputs (N, K, d1, ...), the class on axis 1.

        Returns:
            The opinions (N, d1, ...); their class axis is the last.

        Raises:
            InputError: If there is no axis 1, or another number of classes than the loss was made for.

        Example:
            >>> import torch
            >>> from nescio import EvidentialLoss
            >>> EvidentialLoss(num_classes=3).opinion(torch.zeros(2, 3, 32, 64))
            Opinion(batch (2, 32, 64), 3 classes, mean uncertainty 0.500)
        """
        require_floating("logits", logits, class_axis=1)
        self._require_classes(logits.shape[1])
        return Opinion.from_logits(logits, self.evidence, prior=self.prior, dim=1, validate=self.validate)

    def extra_repr(self) -> str:
        """What stands between the brackets of its repr."""
        evidence = self.evidence if isinstance(self.evidence, str) else "a function"
        settings = (
            f"risk={self.risk}, evidence={evidence}, divergence_weight={self.divergence_weight}, "
            f"annealing_epochs={self.annealing_epochs}, reduction={self.reduction}"
        )
        if self.prior != 1:
            settings = f"{settings}, prior={self.prior:g}"
        if self.num_classes is not None:
            settings = f"num_classes={self.num_classes}, {settings}"
        return settings

    def _weight_at(self, epoch: float | None, num_classes: int) -> float:
        if self.annealing_epochs and epoch is None:
            raise InputError(
                f"epoch must be given while annealing is on (annealing_epochs={self.annealing_epochs}): "
                "call loss(logits, targets, epoch=...), or set annealing_epochs=0"
            )
        weight = self.divergence_weight
        if isinstance(weight, str):
            weight = default_divergence_weight(num_classes, self.risk)
        return weight * linear_annealing(epoch or 0.0, self.annealing_epochs)

    def _mean_at_once(self, logits: Tensor, targets: Tensor, weight: float) -> Tensor | None:
        """The mean loss () without the losses of samples, in fewer steps; None where that can't be."""
        name, x, loss = self._row_loss(logits, weight, expected_scale=1 / max(logits.shape[0], 1))
        return mean_loss(name, x, targets, loss, self.ignore_index, self.validate)

    def _loss_of_each(self, logits: Tensor, targets: Tensor, weight: float) -> tuple[Tensor, Tensor | None]:
        """The loss of each sample (N, d1, ...), and which of them were ignored; None if surely none."""
        scale = 1.0
        if self.reduction == "mean" and self.class_weight is None:
            scale = logits.shape[1] / max(logits.numel(), 1)
        name, x, loss = self._row_loss(logits, weight, scale)
        return total_loss(name, x, targets, loss, self.ignore_index, self.validate)

    def _row_loss(self, logits: Tensor, weight: float, expected_scale: float) -> tuple[str, Tensor, RowLoss]:
        """What to evaluate: logits for a function known here, evidence for the user's own."""
        risk = self._risk()
        if isinstance(self.evidence, str):
            loss = RowLoss(ACTIVATIONS[self.evidence], risk, weight, expected_scale, self.prior)
            return "logits", logits, loss
        given = require_floating("what the evidence function gives", self.evidence(logits), class_axis=1)
        evidence = at_least_float32(given)
        if evidence.shape != logits.shape:
            raise InputError(
                f"the evidence function must keep the shape {tuple(logits.shape)}, gave {describe(evidence)}"
            )
        if looks_at_values(evidence, self.validate) and not bool((evidence >= 0).all()):
            raise InputError(f"the evidence function must give zero or more, gave {float(evidence.min()):g}")
        return "evidence", evidence, RowLoss(IDENTITY, risk, weight, expected_scale, self.prior)

    def _risk(self) -> Risk:
        return RISKS[self.risk]

    def _require_classes(self, num_classes: int) -> None:
        if self.num_classes is not None and num_classes != self.num_classes:
            raise InputError(
                f"logits must have {self.num_classes} classes on axis 1 (num_classes), got {num_classes}"
            )
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
            if ignored is not None:
                weight = weight.masked_fill(ignored, 0.0)
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


class REDLoss(EvidentialLoss):
    """The loss of RED: that of EDL, and a reward of the true class where there is little evidence.

    risk + divergence_weight * min(1, epoch / annealing_epochs) * misleading divergence - u z_y

    u = K prior / S counts as a constant: a sample without evidence, from which EDL learns nothing where its
    evidence function is flat, has a gradient. Arguments and errors as of `EvidentialLoss`; the defaults are
    those of the authors' code for MNIST.

    Args:
        num_classes: K, or None for any number.
        risk: "type2", "squared_error", "cross_entropy" or "brier".
        evidence: "exp", "relu", "softplus" or a function from logits to evidence.
        divergence_weight: Weight of the divergence, or "auto" for the library's rule.
        annealing_epochs: Number of epochs over which the divergence grows to its weight; 0 for none.
        class_weight: A weight for each class (K,).
        ignore_index: Class index of samples that do not count.
        reduction: "mean", "sum" or "none".
        prior: Prior of each class in alpha = evidence + prior.
        validate: Whether to look at values; by default on the CPU only.

    Raises:
        InputError: If a setting is not one of these.

    Example:
        >>> import torch
        >>> from nescio import REDLoss
        >>> loss = REDLoss(evidence="relu", annealing_epochs=0)
        >>> logits = torch.tensor([[-2.0, -1.0]], requires_grad=True)  # no evidence at all
        >>> torch.autograd.grad(loss(logits, torch.tensor([0])), logits)[0]
        tensor([[-1.,  0.]])
    """

    def __init__(
        self,
        num_classes: int | None = None,
        risk: str = "type2",
        evidence: str | EvidenceFunction = "exp",
        divergence_weight: float | str = 1.0,
        annealing_epochs: float = 10,
        class_weight: Tensor | None = None,
        ignore_index: int = IGNORE_INDEX,
        reduction: str = "mean",
        *,
        prior: float = 1.0,
        validate: bool | None = None,
    ) -> None:
        super().__init__(
            num_classes,
            risk,
            evidence,
            divergence_weight,
            annealing_epochs,
            class_weight,
            ignore_index,
            reduction,
            prior=prior,
            validate=validate,
        )

    def _mean_at_once(self, logits: Tensor, targets: Tensor, weight: float) -> Tensor | None:
        return None  # there is a term for each sample

    def _loss_of_each(self, logits: Tensor, targets: Tensor, weight: float) -> tuple[Tensor, Tensor | None]:
        value, ignored = super()._loss_of_each(logits, targets, weight)
        with torch.no_grad():
            evidence = evidence_function(self.evidence)(logits)
        reward = correct_evidence_regularizer(
            logits, evidence, targets, self.ignore_index, prior=self.prior, validate=self.validate
        )
        return value + reward, ignored


class IEDLLoss(EvidentialLoss):
    """The loss of I-EDL: equation 5 with every class weighted by its Fisher information.

    sum_j psi'(alpha_j) [(y_j - p_j)^2 + p_j (1 - p_j) / (S + 1)] - fisher_weight * ln |I|
    + divergence_weight * min(1, epoch / annealing_epochs) * misleading divergence

    |I| is the determinant of the Fisher information of the Dirichlet distribution, which falls as evidence
    grows: its term keeps the evidence small. The loss may be below zero.

    Args:
        num_classes: K, or None for any number.
        fisher_weight: Weight of ln |I|: 0.005 as published for MNIST, 0.05 for CIFAR-10.
        evidence: "softplus", "exp", "relu" or a function from logits to evidence.
        divergence_weight: Weight of the divergence, or "auto" for the library's rule.
        annealing_epochs: Number of epochs over which the divergence grows to its weight; 0 for none.
        class_weight: A weight for each class (K,).
        ignore_index: Class index of samples that do not count.
        reduction: "mean", "sum" or "none".
        prior: Prior of each class in alpha = evidence + prior.
        validate: Whether to look at values; by default on the CPU only.

    Raises:
        InputError: If a setting is not one of these.

    Example:
        >>> import torch
        >>> from nescio import IEDLLoss
        >>> loss = IEDLLoss(num_classes=3, reduction="none")
        >>> loss(torch.tensor([[2.0, -1.0, 0.0], [2.0, -1.0, 0.0]]), torch.tensor([0, 1]), epoch=10)
        tensor([0.4200, 1.4901])
    """

    def __init__(
        self,
        num_classes: int | None = None,
        fisher_weight: float = 0.005,
        evidence: str | EvidenceFunction = "softplus",
        divergence_weight: float | str = 1.0,
        annealing_epochs: float = 10,
        class_weight: Tensor | None = None,
        ignore_index: int = IGNORE_INDEX,
        reduction: str = "mean",
        *,
        prior: float = 1.0,
        validate: bool | None = None,
    ) -> None:
        super().__init__(
            num_classes,
            "squared_error",
            evidence,
            divergence_weight,
            annealing_epochs,
            class_weight,
            ignore_index,
            reduction,
            prior=prior,
            validate=validate,
        )
        require_number("fisher_weight", fisher_weight)
        self.fisher_weight = fisher_weight

    def extra_repr(self) -> str:
        """What stands between the brackets of its repr."""
        return f"{super().extra_repr()}, fisher_weight={self.fisher_weight}"

    def _risk(self) -> Risk:
        return information_risk(self.fisher_weight)


def _require_one_of(name: str, value: str, names: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in names:
        raise InputError(f"{name} must be one of {', '.join(names)}, got {value!r}")


def _require_divergence_weight(weight: float | str) -> None:
    """Refuse what is neither a number from 0 on nor "auto"."""
    if isinstance(weight, str) and weight == AUTO:
        return
    if isinstance(weight, str):
        raise InputError(f"divergence_weight must be a number from 0 on or 'auto', got {weight!r}")
    require_number("divergence_weight", weight)


def _checked_class_weight(weight: Tensor | None) -> Tensor | None:
    if weight is None:
        return None
    if not isinstance(weight, Tensor):
        raise InputError(
            f"class_weight must be a tensor of weights (K,), zero or more, got {describe(weight)}"
        )
    if weight.ndim != 1 or not bool(((weight >= 0) & weight.isfinite()).all()):
        raise InputError(
            f"class_weight must be a tensor of weights (K,), zero or more, got {weight.tolist()}"
        )
    return weight.clone() if weight.is_floating_point() else weight.float()
