"""Results: what a model card says in numbers, from predictions of labelled data."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nescio.inference.model import TrainedModel
from nescio.metrics import (
    ClassMeasures,
    Interval,
    Reliability,
    RiskCoverage,
    class_measures,
    confusion_matrix,
    detection_summary,
    reliability,
    risk_coverage,
    summary,
    wilson_interval,
)
from nescio.metrics.calibration import right_answers
from nescio.opinions.categorical import Prediction
from nescio.opinions.opinion import Opinion

BINS = 10
SHOWN_MISTAKES = 12
SHOWN_DOUBTFUL = 12
SHOWN_PAIRS = 15
ROUNDING = 1e-9  # 0.8 of ten inputs are eight of them, whatever floats make of it


@dataclass(frozen=True)
class ConfusedPair:
    """A class that was taken for another.

    Args:
        truth: Position of the true class.
        answer: Position of the class that was answered.
        count: How often it happened.
        share: The part of the inputs of the true class that it happened to.
    """

    truth: int
    answer: int
    count: int
    share: float


@dataclass(frozen=True, eq=False)
class Results:
    """What was measured.

    Args:
        prediction: What the model says of N inputs.
        labels: What they are, int64 (N,).
        right: Whether the answers are right, bool (N,).
        accepted: Whether the model stands by its answers, bool (N,).
        measures: The figures of `nescio.metrics.summary`.
        interval: The 95% interval of the accuracy.
        confusion: Answers by true class and class answered, int64 (K, K).
        of_classes: Precision, recall, count and uncertainty of each class.
        calibration: Answers by their probability.
        risks: The error of what is answered, by how much is answered.
        ood: What the model says of out-of-distribution inputs; None where there are none.
        ood_measures: The figures of `nescio.metrics.detection_summary`; empty where there are none.
        ood_accepted: Whether the model stands by its answers to these, bool (M,); None where there are none.
    """

    prediction: Prediction
    labels: Tensor
    right: Tensor
    accepted: Tensor
    measures: dict[str, float]
    interval: Interval
    confusion: Tensor
    of_classes: ClassMeasures
    calibration: Reliability
    risks: RiskCoverage
    ood: Prediction | None
    ood_measures: dict[str, float]
    ood_accepted: Tensor | None

    @property
    def count(self) -> int:
        """How many inputs were answered or not, N."""
        return len(self.labels)

    @property
    def has_evidence(self) -> bool:
        """Whether the uncertainty is a mass of its own, and not the entropy of the probabilities."""
        return isinstance(self.prediction, Opinion)

    @property
    def num_unanswered(self) -> int:
        """Inputs without any evidence, for which there is no answer at all."""
        return int(self.prediction.is_vacuous.sum())

    @property
    def answered_confusion(self) -> Tensor:
        """As `confusion`, of the answers that the model stands by, int64 (K, K)."""
        return confusion_matrix(self.prediction, self.labels, self.accepted)

    @property
    def unanswered(self) -> Tensor:
        """Inputs of each class that are answered with "I do not know", int64 (K,)."""
        return self.of_classes.count - self.answered_confusion.sum(1)

    @property
    def most_frequent(self) -> tuple[int, float]:
        """The class with the most inputs, and its share of them."""
        label = int(self.of_classes.count.argmax())
        return label, int(self.of_classes.count[label]) / self.count

    @property
    def is_guessing(self) -> bool:
        """Whether always giving the most frequent class could be as good."""
        accuracy = float(self.right.double().mean())
        return is_no_better_than_guessing(accuracy, self.labels)

    @property
    def accepted_share(self) -> float:
        """Share of the inputs whose answers the model stands by."""
        return float(self.accepted.double().mean())

    @property
    def ood_accepted_share(self) -> float | None:
        """The same of the out-of-distribution inputs; None where there are none."""
        if self.ood_accepted is None:
            return None
        return float(self.ood_accepted.double().mean())

    @property
    def accepted_accuracy(self) -> float | None:
        """Share of right answers among those that the model stands by; None where there are none."""
        if not bool(self.accepted.any()):
            return None
        return float(self.right[self.accepted].double().mean())

    def risk_at(self, coverage: float) -> float:
        """The share of wrong answers where at least this share of the inputs is answered, surest first."""
        place = int(torch.searchsorted(self.risks.coverage, coverage - ROUNDING))
        return float(self.risks.risk[min(place, len(self.risks.risk) - 1)])

    def confused_pairs(self) -> list[ConfusedPair]:
        """The pairs of classes that are taken for each other most often."""
        wrong = self.confusion.clone()
        wrong.fill_diagonal_(0)
        classes = len(wrong)
        most = min(SHOWN_PAIRS, int((wrong > 0).sum()))
        pairs = []
        # A stable order: of pairs as frequent as each other, the first classes first.
        for cell in wrong.flatten().argsort(descending=True, stable=True)[:most].tolist():
            truth = cell // classes
            answer = cell % classes
            count = int(wrong[truth, answer])
            pairs.append(ConfusedPair(truth, answer, count, count / int(self.of_classes.count[truth])))
        return pairs

    def surest_mistakes(self) -> Tensor:
        """Positions of the wrong answers with the least uncertainty, the surest first."""
        is_mistake = ~self.right & ~self.prediction.is_vacuous.cpu()
        mistakes = is_mistake.nonzero().flatten()
        order = self._doubt[mistakes].argsort(stable=True)
        return mistakes[order][:SHOWN_MISTAKES]

    def most_doubtful(self) -> Tensor:
        """Positions of the inputs with the greatest uncertainty, the most doubtful first."""
        return self._doubt.argsort(descending=True, stable=True)[:SHOWN_DOUBTFUL]

    @property
    def _doubt(self) -> Tensor:
        return self.prediction.uncertainty.cpu()


def is_no_better_than_guessing(accuracy: float, labels: Tensor) -> bool:
    """Whether always giving the most frequent of the labels (N,) could be as good, by the 95% interval."""
    share = int(labels.bincount().max()) / len(labels)
    return wilson_interval(accuracy, len(labels)).low <= share


def measure(model: TrainedModel, prediction: Prediction, labels: Tensor, ood: Prediction | None) -> Results:
    """Measure predictions of labelled data.

    Args:
        model: The model, which says by which answers it stands.
        prediction: Prediction of N inputs.
        labels: What they are, int64 (N,), positions among the model's classes.
        ood: Prediction of out-of-distribution inputs; None where there are none.

    Raises:
        InputError: If prediction and labels do not fit.
    """
    right = right_answers(prediction, labels)
    share = float(right.double().mean())
    detected = {}
    ood_accepted = None
    if ood is not None:
        detected = detection_summary(prediction, ood)
        ood_accepted = model.accepts(ood).cpu()
    return Results(
        prediction=prediction,
        labels=labels,
        right=right,
        accepted=model.accepts(prediction).cpu(),
        measures=summary(prediction, labels),
        interval=wilson_interval(share, len(right)),
        confusion=confusion_matrix(prediction, labels),
        of_classes=class_measures(prediction, labels),
        calibration=reliability(prediction, labels, BINS),
        risks=risk_coverage(prediction.uncertainty, right),
        ood=ood,
        ood_measures=detected,
        ood_accepted=ood_accepted,
    )
