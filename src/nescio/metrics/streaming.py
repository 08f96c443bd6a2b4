"""The metrics as torchmetrics classes: batch by batch, and over several processes.

Each gives, for all the batches that it was given, what the function of the same name gives for them at once.
Sums are kept where sums are enough; what orders all samples keeps a number and a flag for each of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nescio._checks import describe, require_number, require_whole
from nescio._precision import has_float64, wide_type
from nescio.errors import InputError, MissingExtraError
from nescio.metrics._inputs import flat, require_probabilities, require_scores
from nescio.metrics.calibration import (
    accuracy,
    answered_accuracy,
    answered_share,
    bin_sums,
    brier_score,
    calibration_error_of,
    negative_log_likelihood,
    raw_accuracy,
    reliability_of,
    right_answers,
)
from nescio.metrics.classes import confusion_matrix
from nescio.metrics.detection import detection
from nescio.metrics.selective import (
    area_under_generalized_risk_coverage,
    area_under_risk_coverage,
    excess_area,
)
from nescio.opinions.categorical import Prediction
from nescio.opinions.measures import MEASURES
from nescio.posthoc.abstention import AbstentionRule

try:
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat
except ImportError as error:
    raise MissingExtraError("metrics", "torchmetrics") from error

__all__ = [
    "AcceptedAccuracy",
    "AcceptedShare",
    "Accuracy",
    "AnsweredAccuracy",
    "AnsweredShare",
    "AreaUnderGeneralizedRiskCoverage",
    "AreaUnderRiskCoverage",
    "BrierScore",
    "ConfusionMatrix",
    "ExcessArea",
    "ExpectedCalibrationError",
    "MeanUncertainty",
    "NegativeLogLikelihood",
    "OODDetection",
    "RawAccuracy",
]

DEFAULT_THRESHOLD = 0.5


class _Streaming(Metric):
    """What all of them have in common."""

    is_differentiable = False
    full_state_update = False

    def _apply(self, fn: Callable[[Tensor], Tensor], exclude_state: Any = "") -> Any:
        # Some devices have no float64: what is moved there goes on in float32.
        if not has_float64(fn(torch.zeros(1)).device):
            for name, default in self._defaults.items():
                state = getattr(self, name)
                if isinstance(state, Tensor) and state.dtype == torch.float64:
                    setattr(self, name, state.float())
                if isinstance(default, Tensor) and default.dtype == torch.float64:
                    self._defaults[name] = default.float()  # which `reset` goes back to
        return super()._apply(fn, exclude_state)

    def _as_state(self, values: Tensor) -> Tensor:
        """A sum as its state keeps it."""
        return values.to(self.device, wide_type(self.device))

    def _result(self, value: float) -> Tensor:
        return torch.tensor(value, dtype=torch.float32, device=self.device)


class _OfLabelled(_Streaming):
    """What needs the true classes."""

    @abstractmethod
    def _take(self, prediction: Prediction, labels: Tensor) -> None:
        """Take a batch into account."""

    def update(self, prediction: Prediction, labels: Tensor) -> None:
        """Take a batch into account.

        Args:
            prediction: Prediction of inputs (...).
            labels: Their true classes (...), whole numbers.

        Raises:
            InputError: If they do not fit.
        """
        self._take(prediction, labels)


class _OfPredictions(_Streaming):
    """What needs no labels."""

    @abstractmethod
    def _take(self, prediction: Prediction) -> None:
        """Take a batch into account."""

    def update(self, prediction: Prediction, labels: Tensor | None = None) -> None:
        """Take a batch into account.

        Args:
            prediction: Prediction of inputs (...).
            labels: Not used; for collections of metrics that give labels to all.

        Raises:
            InputError: If it is no prediction.
        """
        require_probabilities(prediction)
        self._take(prediction)


def _require_samples(count: Tensor | int) -> None:
    if int(count) == 0:
        raise InputError("there must be one sample or more: call update before compute, got none")


class _Mean(_Streaming):
    """The weighted mean over batches of what a function gives."""

    _is_of_a_part = False  # of the samples, and then it may be of none
    total: Tensor
    count: Tensor

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def _add(self, mean: float, count: float) -> None:
        if count:  # of no samples the mean is NaN
            self.total = self.total + mean * count
            self.count = self.count + count

    def compute(self) -> Tensor:
        """The mean, (); of a part of the samples NaN, where no sample is in that part."""
        if not self._is_of_a_part:
            _require_samples(self.count)
        return (self.total / self.count).float()


class _MeanOfFunction(_Mean, _OfLabelled):
    """The mean over samples of a function of a prediction and its labels."""

    @staticmethod
    def _function(prediction: Prediction, labels: Tensor) -> float:
        raise NotImplementedError

    def _take(self, prediction: Prediction, labels: Tensor) -> None:
        self._add(self._function(prediction, labels), labels.numel())


class Accuracy(_MeanOfFunction):
    """Share of right answers; a vacuous one counts as wrong, see `nescio.metrics.accuracy`.

    Args:
        options: What torchmetrics.Metric takes.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.metrics.streaming import Accuracy
        >>> metric = Accuracy()
        >>> metric.update(Opinion(torch.tensor([[4.0, 0.0]])), torch.tensor([0]))
        >>> metric.update(Opinion(torch.tensor([[0.0, 4.0], [0.0, 0.0]])), torch.tensor([0, 0]))
        >>> metric.compute()
        tensor(0.3333)
    """

    higher_is_better = True
    _function = staticmethod(accuracy)


class RawAccuracy(_MeanOfFunction):
    """Share of samples whose greatest raw output is the true class's, see `nescio.metrics.raw_accuracy`.

    Args:
        options: What torchmetrics.Metric takes.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.metrics.streaming import RawAccuracy
        >>> metric = RawAccuracy()
        >>> metric.update(Opinion(torch.tensor([[0.0, 4.0], [0.0, 0.0]])), torch.tensor([0, 0]))
        >>> metric.compute()
        tensor(0.5000)
    """

    higher_is_better = True
    _function = staticmethod(raw_accuracy)


class NegativeLogLikelihood(_MeanOfFunction):
    """Mean of -ln p_y, see `nescio.metrics.negative_log_likelihood`.

    Args:
        options: What torchmetrics.Metric takes.

    Example:
        >>> import torch
        >>> from nescio import Categorical
        >>> from nescio.metrics.streaming import NegativeLogLikelihood
        >>> metric = NegativeLogLikelihood()
        >>> metric.update(Categorical(torch.tensor([[0.8, 0.2], [0.5, 0.5]])), torch.tensor([0, 1]))
        >>> metric.compute()
        tensor(0.4581)
    """

    higher_is_better = False
    _function = staticmethod(negative_log_likelihood)


class BrierScore(_MeanOfFunction):
    """Mean over samples of sum_k (p_k - y_k)^2, see `nescio.metrics.brier_score`.

    Args:
        options: What torchmetrics.Metric takes.

    Example:
        >>> import torch
        >>> from nescio import Categorical
        >>> from nescio.metrics.streaming import BrierScore
        >>> metric = BrierScore()
        >>> metric.update(Categorical(torch.tensor([[0.8, 0.2], [0.5, 0.5]])), torch.tensor([0, 1]))
        >>> metric.compute()
        tensor(0.2900)
    """

    higher_is_better = False
    _function = staticmethod(brier_score)


class AnsweredShare(_Mean, _OfPredictions):
    """Share of samples with any evidence at all, see `nescio.metrics.answered_share`.

    Args:
        options: What torchmetrics.Metric takes.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.metrics.streaming import AnsweredShare
        >>> metric = AnsweredShare()
        >>> metric.update(Opinion(torch.tensor([[4.0, 0.0], [0.0, 0.0]])))
        >>> metric.compute()
        tensor(0.5000)
    """

    higher_is_better = None

    def _take(self, prediction: Prediction) -> None:
        self._add(answered_share(prediction), prediction.is_vacuous.numel())


class AnsweredAccuracy(_Mean, _OfLabelled):
    """Share of right answers among the samples with an answer, see `nescio.metrics.answered_accuracy`.

    Args:
        options: What torchmetrics.Metric takes.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.metrics.streaming import AnsweredAccuracy
        >>> metric = AnsweredAccuracy()
        >>> opinion = Opinion(torch.tensor([[4.0, 0.0], [0.0, 4.0], [0.0, 0.0]]))
        >>> metric.update(opinion, torch.tensor([0, 0, 0]))
        >>> metric.compute()
        tensor(0.5000)
    """

    higher_is_better = True
    _is_of_a_part = True

    def _take(self, prediction: Prediction, labels: Tensor) -> None:
        answered = int((~flat(prediction.is_vacuous)).sum())
        self._add(answered_accuracy(prediction, labels), answered)


class MeanUncertainty(_Mean, _OfPredictions):
    """Mean of a measure of doubt; of the uncertainty where no other is named.

    Args:
        measure: Name of the measure, one of `nescio.opinions.MEASURES`.
        options: What torchmetrics.Metric takes.

    Raises:
        InputError: If there is no such measure.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.metrics.streaming import MeanUncertainty
        >>> metric = MeanUncertainty()
        >>> metric.update(Opinion(torch.tensor([[18.0, 0.0], [0.0, 0.0]])))
        >>> metric.compute()
        tensor(0.5500)
    """

    higher_is_better = None

    def __init__(self, measure: str = "uncertainty", **options: Any) -> None:
        super().__init__(**options)
        self.measure = MEASURES.get(measure)

    def _take(self, prediction: Prediction) -> None:
        values = require_scores(self.measure.name, self.measure(prediction))
        self._add(float(values.mean()), len(values))


class _Accepted(_Mean):
    """What has in common what is counted by whether an answer is accepted."""

    def __init__(
        self, threshold: float = DEFAULT_THRESHOLD, *, rule: AbstentionRule | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        require_number("threshold", threshold)
        if rule is not None and not isinstance(rule, AbstentionRule):
            raise InputError(f"rule must be an AbstentionRule, got {describe(rule)}")
        self.threshold = threshold
        self.rule = rule

    def _is_accepted(self, prediction: Prediction) -> Tensor:
        if self.rule is not None:
            return flat(self.rule.accept(prediction))
        uncertainty = flat(prediction.uncertainty)
        # In the type of u: the float32 nearest to 0.1 is not above a threshold of 0.1.
        return uncertainty <= torch.tensor(self.threshold, dtype=uncertainty.dtype)


class AcceptedAccuracy(_Accepted, _OfLabelled):
    """Accuracy among the accepted: those with u <= threshold, or those that a rule accepts.

    With a threshold it is a point of `nescio.metrics.accuracy_against_threshold`; a vacuous prediction that
    is accepted counts as wrong.

    Args:
        threshold: The most uncertainty that is accepted, u <= threshold. (A model without a rule asks for
            u < 0.5: `TrainedModel.accepts`.)
        rule: A rule of abstention that decides instead; None for the threshold.
        options: What torchmetrics.Metric takes.

    Raises:
        InputError: If the threshold is no number from 0 on.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.metrics.streaming import AcceptedAccuracy
        >>> metric = AcceptedAccuracy(threshold=0.2)
        >>> metric.update(Opinion(torch.tensor([[18.0, 0.0], [2.0, 0.0]])), torch.tensor([0, 1]))
        >>> metric.compute()
        tensor(1.)
    """

    higher_is_better = True
    _is_of_a_part = True

    def _take(self, prediction: Prediction, labels: Tensor) -> None:
        right = right_answers(prediction, labels)[self._is_accepted(prediction)]
        self._add(float(right.double().mean()), len(right))


class AcceptedShare(_Accepted, _OfPredictions):
    """Share of samples that are accepted: those with u <= threshold, or those that a rule accepts.

    With a threshold it is the coverage at a point of `nescio.metrics.accuracy_against_threshold`.

    Args:
        threshold: The most uncertainty that is accepted, u <= threshold. (A model without a rule asks for
            u < 0.5: `TrainedModel.accepts`.)
        rule: A rule of abstention that decides instead; None for the threshold.
        options: What torchmetrics.Metric takes.

    Raises:
        InputError: If the threshold is no number from 0 on.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.metrics.streaming import AcceptedShare
        >>> metric = AcceptedShare(threshold=0.2)
        >>> metric.update(Opinion(torch.tensor([[18.0, 0.0], [2.0, 0.0]])))
        >>> metric.compute()
        tensor(0.5000)
    """

    higher_is_better = None

    def _take(self, prediction: Prediction) -> None:
        accepted = self._is_accepted(prediction)
        self._add(float(accepted.double().mean()), len(accepted))


class ExpectedCalibrationError(_OfLabelled):
    """ECE of the largest probabilities, see `nescio.metrics.expected_calibration_error`.

    Args:
        bins: B.
        options: What torchmetrics.Metric takes.

    Raises:
        InputError: If bins is not a whole number from 1 on.

    Example:
        >>> import torch
        >>> from nescio import Categorical
        >>> from nescio.metrics.streaming import ExpectedCalibrationError
        >>> metric = ExpectedCalibrationError()
        >>> for label in (0, 1):
        ...     metric.update(Categorical(torch.tensor([[0.75, 0.25]])), torch.tensor([label]))
        >>> metric.compute()
        tensor(0.2500)
    """

    higher_is_better = False
    sums: Tensor

    def __init__(self, bins: int = 15, **options: Any) -> None:
        super().__init__(**options)
        require_whole("bins", bins, least=1)
        self.bins = bins
        self.add_state("sums", torch.zeros(3, bins, dtype=torch.float64), dist_reduce_fx="sum")

    def _take(self, prediction: Prediction, labels: Tensor) -> None:
        self.sums = self.sums + self._as_state(bin_sums(prediction, labels, self.bins))

    def compute(self) -> Tensor:
        """The error, ()."""
        _require_samples(self.sums[0].sum())
        return self._result(calibration_error_of(reliability_of(self.sums)))


class ConfusionMatrix(_OfLabelled):
    """Count of the answers by true class and class answered, see `nescio.metrics.confusion_matrix`.

    Args:
        num_classes: K.
        options: What torchmetrics.Metric takes.

    Raises:
        InputError: If num_classes is not a whole number from 2 on.

    Example:
        >>> import torch
        >>> from nescio import Categorical
        >>> from nescio.metrics.streaming import ConfusionMatrix
        >>> metric = ConfusionMatrix(num_classes=2)
        >>> metric.update(Categorical(torch.tensor([[0.8, 0.2], [0.7, 0.3]])), torch.tensor([0, 1]))
        >>> metric.compute()
        tensor([[1, 0],
                [1, 0]])
    """

    higher_is_better = None
    cells: Tensor

    def __init__(self, num_classes: int, **options: Any) -> None:
        super().__init__(**options)
        require_whole("num_classes", num_classes, least=2)
        cells = torch.zeros(num_classes, num_classes, dtype=torch.int64)
        self.add_state("cells", cells, dist_reduce_fx="sum")

    def _take(self, prediction: Prediction, labels: Tensor) -> None:
        found = confusion_matrix(prediction, labels)
        if found.shape != self.cells.shape:
            raise InputError(f"prediction must be of {len(self.cells)} classes, got {len(found)}")
        self.cells = self.cells + found.to(self.device)

    def compute(self) -> Tensor:
        """int64 (K, K)."""
        return self.cells


class _Ordered(_Streaming):
    """What orders all samples by a score, and so keeps a score and a flag for each."""

    scores: list[Tensor]
    flags: list[Tensor]

    def __init__(self, measure: str = "uncertainty", **options: Any) -> None:
        super().__init__(**options)
        self.measure = MEASURES.get(measure)
        self.add_state("scores", [], dist_reduce_fx="cat")
        self.add_state("flags", [], dist_reduce_fx="cat")

    def _keep(self, prediction: Prediction, flags: Tensor) -> None:
        doubt = self.measure.doubt(prediction)
        require_scores(self.measure.name, doubt)
        self.scores.append(flat(doubt).to(self.device))
        self.flags.append(flags.to(self.device))

    def _all(self) -> tuple[Tensor, Tensor]:
        """Scores and flags of all samples, (N,) each."""
        # After processes were brought together they are tensors, before that lists of them.
        if isinstance(self.scores, list):
            _require_samples(len(self.scores))
        return dim_zero_cat(self.scores), dim_zero_cat(self.flags).bool()


class _Selective(_Ordered, _OfLabelled):
    """A function of the doubt of samples, and of whether they are answered rightly."""

    higher_is_better = False

    @staticmethod
    def _function(uncertainty: Tensor, correct: Tensor) -> float:
        raise NotImplementedError

    def _take(self, prediction: Prediction, labels: Tensor) -> None:
        self._keep(prediction, right_answers(prediction, labels))

    def compute(self) -> Tensor:
        """The area, ()."""
        scores, right = self._all()
        return self._result(self._function(scores, right))


class AreaUnderRiskCoverage(_Selective):
    """AURC, see `nescio.metrics.area_under_risk_coverage`.

    Args:
        measure: Name of the measure of doubt that samples are ordered by.
        options: What torchmetrics.Metric takes.

    Raises:
        InputError: If there is no such measure.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.metrics.streaming import AreaUnderRiskCoverage
        >>> metric = AreaUnderRiskCoverage()
        >>> metric.update(Opinion(torch.tensor([[18.0, 0.0], [2.0, 0.0]])), torch.tensor([0, 1]))
        >>> metric.compute()
        tensor(0.2500)
    """

    _function = staticmethod(area_under_risk_coverage)


class AreaUnderGeneralizedRiskCoverage(_Selective):
    """AUGRC, see `nescio.metrics.area_under_generalized_risk_coverage`.

    Args:
        measure: Name of the measure of doubt that samples are ordered by.
        options: What torchmetrics.Metric takes.

    Raises:
        InputError: If there is no such measure.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.metrics.streaming import AreaUnderGeneralizedRiskCoverage
        >>> metric = AreaUnderGeneralizedRiskCoverage()
        >>> metric.update(Opinion(torch.tensor([[18.0, 0.0], [2.0, 0.0]])), torch.tensor([0, 1]))
        >>> metric.compute()
        tensor(0.1250)
    """

    _function = staticmethod(area_under_generalized_risk_coverage)


class ExcessArea(_Selective):
    """E-AURC, see `nescio.metrics.excess_area`.

    Args:
        measure: Name of the measure of doubt that samples are ordered by.
        options: What torchmetrics.Metric takes.

    Raises:
        InputError: If there is no such measure.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.metrics.streaming import ExcessArea
        >>> metric = ExcessArea()
        >>> metric.update(Opinion(torch.tensor([[2.0, 0.0], [18.0, 0.0]])), torch.tensor([0, 1]))
        >>> metric.compute()
        tensor(0.5000)
    """

    _function = staticmethod(excess_area)


class OODDetection(_Ordered):
    """AUROC, AUPR and FPR95 of OOD inputs among known ones, see `nescio.metrics.detection`.

    Args:
        measure: Name of the measure of doubt by which OOD inputs are told.
        options: What torchmetrics.Metric takes.

    Raises:
        InputError: If there is no such measure.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.metrics.streaming import OODDetection
        >>> metric = OODDetection()
        >>> metric.update(Opinion(torch.tensor([[18.0, 0.0], [0.0, 9.0]])), is_ood=False)
        >>> metric.update(Opinion(torch.zeros(3, 2)), is_ood=True)
        >>> metric.compute()
        {'auroc': tensor(1.), 'aupr': tensor(1.), 'fpr95': tensor(0.)}
    """

    higher_is_better = None

    def update(self, prediction: Prediction, is_ood: bool | Tensor) -> None:
        """Take a batch into account.

        Args:
            prediction: Prediction of inputs (...).
            is_ood: Whether they are out of distribution: one answer for all, or bool (...).

        Raises:
            InputError: If they do not fit.
        """
        require_probabilities(prediction)
        shape = prediction.probabilities.shape[:-1]
        flags = torch.as_tensor(is_ood)
        if flags.dtype != torch.bool or flags.shape not in (shape, ()):
            raise InputError(f"is_ood must be True, False or bool {tuple(shape)}, got {is_ood!r}")
        self._keep(prediction, flat(flags.expand(shape)))

    def compute(self) -> dict[str, Tensor]:
        """The figures by name: auroc, aupr and fpr95."""
        scores, is_ood = self._all()
        found = detection(scores[~is_ood], scores[is_ood])
        return {
            "auroc": self._result(found.auroc),
            "aupr": self._result(found.aupr),
            "fpr95": self._result(found.fpr95),
        }
