"""What is measured of a trained network on known and OOD inputs, as trained and with what is fitted after.

All arms are asked about the same inputs. OOD inputs are the positive class of AUROC and AUPR.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from nescio.data import LabelledData, StoredArray, Texts
from nescio.errors import InputError
from nescio.inference._calibration import calibrate
from nescio.inference.model import TrainedModel
from nescio.metrics import (
    area_under_generalized_risk_coverage,
    detection,
    detection_by_measure,
    summary,
)
from nescio.metrics.calibration import right_answers
from nescio.posthoc.scores import LOGIT_SCORES, KNNScore, MahalanobisScore, ViMScore
from nescio.studies.measurement import Measurement, Numbers
from nescio.studies.plan import DataPart, TrainingPlan
from nescio.training import Samples

NEIGHBOUR = 5  # whose distance is the score of kNN
MOST_NEIGHBOURS = 20_000  # training samples that inputs are compared with


@dataclass(frozen=True)
class AsTrained(Measurement):
    """What a network says as it was trained.

    Args:
        known: The data whose test part is of known classes.
        ood: Data whose test parts are not, by name.
        seed: Seed of the random draws of a method that draws.
    """

    name: ClassVar[str] = "plain"
    known: DataPart
    ood: Mapping[str, DataPart]
    seed: int

    @property
    def data(self) -> Mapping[str, str]:
        """All test parts."""
        return test_parts(self.known, self.ood)

    def run(self, model: TrainedModel, sources: Sequence[TrainedModel] = ()) -> Numbers:
        """Scores on known inputs, detection of OOD inputs, and what a prediction costs."""
        return {
            **scores_of(model, self.known, self.ood, self.seed),
            "passes": model.method.passes,
            "trainings": model.method.trainings,
        }


@dataclass(frozen=True)
class WithPosthoc(Measurement):
    """What the same network says with a temperature, and with temperature and trust.

    Both are fitted as `nescio train` fits them, to the samples that the training has set aside.

    Args:
        known, ood, seed: The same as of AsTrained.
        training: The training of the network, and what it has set aside.
    """

    name: ClassVar[str] = "posthoc"
    version: ClassVar[int] = 2  # the scale of the temperature has a prior
    known: DataPart
    ood: Mapping[str, DataPart]
    seed: int
    training: TrainingPlan

    @property
    def data(self) -> Mapping[str, str]:
        """All test parts."""
        return test_parts(self.known, self.ood)

    def run(self, model: TrainedModel, sources: Sequence[TrainedModel] = ()) -> Numbers:
        """The same scores as of AsTrained, for each variant, and what was fitted."""
        train, _ = self.training.load_data()
        calibration = self.training.load_calibration()
        numbers: dict[str, Any] = {}
        for wanted in ("temperature", "all"):
            fitted = calibrate(
                model,
                _samples_of(model, train),
                _samples_of(model, calibration),
                wanted,
                is_encoded=self.training.features is not None,
                seed=self.seed,
            )
            variant = replace(model, posthoc=fitted.posthoc)
            numbers[wanted] = scores_of(variant, self.known, self.ood, self.seed)
            numbers[wanted]["fitted"] = {"done": fitted.done, "skipped": fitted.skipped}
        return numbers


@dataclass(frozen=True)
class WithPosthocOfOpinions(WithPosthoc):
    """The same of a method that gives opinions, whose probabilities get a scale and a shift of their own."""

    version: ClassVar[int] = 3
    former_versions: ClassVar[tuple[int, ...]] = (2,)


@dataclass(frozen=True)
class ComparisonScores(Measurement):
    """How well the OOD scores of the literature detect, computed of a softmax network.

    Args:
        known, ood, seed: The same as of AsTrained.
        training: The training of the network: scores of features are fitted to what it was trained on.
        neighbour: Whose distance is the score of kNN.
        neighbours: So many training samples are compared with, drawn once.
    """

    name: ClassVar[str] = "scores"
    version: ClassVar[int] = 2  # the Mahalanobis score is computed around the mean
    known: DataPart
    ood: Mapping[str, DataPart]
    seed: int
    training: TrainingPlan
    neighbour: int = NEIGHBOUR
    neighbours: int = MOST_NEIGHBOURS

    @property
    def data(self) -> Mapping[str, str]:
        """All test parts."""
        return test_parts(self.known, self.ood)

    def run(self, model: TrainedModel, sources: Sequence[TrainedModel] = ()) -> Numbers:
        """AUROC, AUPR and FPR95 of each score on each OOD set."""
        train, _ = self.training.load_data()
        features, logits = model.outputs(model.preprocess.inputs_of(train))
        labels = model.labels_of(train)
        order = torch.randperm(len(features), generator=torch.Generator().manual_seed(self.seed))
        drawn = order[: self.neighbours]
        head: Any = model.method.members(model.module)[0].head
        neighbours = KNNScore.fit(features[drawn], self.neighbour)
        mahalanobis = MahalanobisScore.fit(features, labels)
        vim = ViMScore.fit(features, logits, head.weight, head.bias)

        def scored(part: DataPart) -> dict[str, Tensor]:
            some_features, some_logits = model.outputs(model.preprocess.inputs_of(part.load("test")))
            scores = {name: score(some_logits) for name, score in LOGIT_SCORES.items()}
            scores["knn"] = neighbours(some_features)
            scores["mahalanobis"] = mahalanobis(some_features)
            scores["vim"] = vim(some_features, some_logits)
            return scores

        of_known = scored(self.known)
        found = {}
        for name, part in self.ood.items():
            of_ood = scored(part)
            found[name] = {score: asdict(detection(of_known[score], of_ood[score])) for score in of_ood}
        return {"ood": found}


def test_parts(known: DataPart, ood: Mapping[str, DataPart]) -> dict[str, str]:
    """The data sets that are asked about, each with its split."""
    parts = {known.data: "test"}
    for part in ood.values():
        parts[part.data] = "test"
    return parts


def scores_of(model: TrainedModel, known: DataPart, ood: Mapping[str, DataPart], seed: int) -> dict[str, Any]:
    """What a model says of known inputs and of OOD inputs, in numbers."""
    data = known.load("test")
    labels = model.labels_of(data)
    prediction = _predict(model, data, seed)
    scores = summary(prediction, labels)
    scores["augrc"] = area_under_generalized_risk_coverage(
        prediction.uncertainty, right_answers(prediction, labels)
    )
    found: dict[str, Any] = {}
    for name, part in ood.items():
        said = _predict(model, part.load("test"), seed)
        by = {measure: asdict(each) for measure, each in detection_by_measure(prediction, said).items()}
        # The uncertainty of a method without evidence is its entropy, which is listed under that name alone.
        by.setdefault("uncertainty", by["entropy"])
        found[name] = {
            "samples": len(said),
            "by": by,
            "mean_uncertainty": float(said.uncertainty.double().mean()),
            "median_uncertainty": float(said.uncertainty.double().median()),
        }
    return {"samples": len(labels), "scores": scores, "ood": found}


def _predict(model: TrainedModel, data: LabelledData, seed: int) -> Any:
    inputs = data.inputs
    if isinstance(data, Texts):
        raise InputError(f"{data.name}: texts are measured as features of an encoder, got texts")
    assert isinstance(inputs, Tensor | StoredArray)
    return model.predict(inputs, generator=torch.Generator().manual_seed(seed))


def _samples_of(model: TrainedModel, data: LabelledData) -> Samples:
    """Data with labels that count the model's classes."""
    return Samples(model.preprocess.inputs_of(data), model.labels_of(data))
