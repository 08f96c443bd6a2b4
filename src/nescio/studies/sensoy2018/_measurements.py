"""What is measured of a trained network: known classes, unknown ones, a turning 1, attacks."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BytesIO
from typing import Any, ClassVar

import torch
from torch import Tensor

from nescio.data import Dataset, StoredArray, load
from nescio.data.preprocess import WHITE
from nescio.errors import InputError
from nescio.inference.model import TrainedModel
from nescio.metrics import (
    accuracy,
    accuracy_against_threshold,
    detection_summary,
    entropy_cdf,
    narrowest,
    raw_accuracy,
    rotate,
    summary,
)
from nescio.metrics.attacks import (
    Probabilities,
    fgsm,
    loss_gradient,
    pgd,
    probabilities_of,
    without_gradient,
)
from nescio.metrics.calibration import right_answers
from nescio.opinions.categorical import Prediction
from nescio.opinions.opinion import Opinion
from nescio.studies.measurement import Measurement, Numbers
from nescio.studies.plan import TrainingPlan

ANGLES = tuple(range(0, 181, 10))
POINTS = 101
SUBSET_SEED = 0  # all networks are asked about the same images
UNSEEN_DRAWS = 1_000_000  # seeds of answers under attack from here on: an attack does not know their draws


@dataclass(frozen=True)
class KnownClasses(Measurement):
    """Scores on the classes it was trained on, accuracy against threshold, and how much evidence there is.

    Args:
        test_data: The data set whose test images are asked about.
        images: So many of them; None for all.
        samples: Draws that a prediction is the mean of; None for a method that does not draw.
        seed: Seed of the random draws.
    """

    name: ClassVar[str] = "known"
    test_data: str
    images: int | None
    samples: int | None
    seed: int

    @property
    def data(self) -> Mapping[str, str]:
        """The test images."""
        return {self.test_data: "test"}

    def run(self, model: TrainedModel, sources: Sequence[TrainedModel] = ()) -> Numbers:
        """Scores, curve and evidence."""
        images = images_of(self.test_data, self.images)
        labels = model.labels_of(images)
        prediction = predict(with_samples(model, self.samples), images.images, self.seed)
        curve = accuracy_against_threshold(prediction, labels)
        return {
            "images": len(labels),
            "scores": summary(prediction, labels),
            "threshold": {
                "threshold": curve.threshold,
                "accuracy": curve.accuracy,
                "coverage": curve.coverage,
            },
            "evidence": evidence_numbers(prediction, labels),
        }


@dataclass(frozen=True)
class OutOfDistribution(Measurement):
    """How well images of no known class are detected, and the distribution of the entropy of both.

    Args:
        test_data, images: The known test images, as of KnownClasses.
        ood_data, ood_images: The images of no known class.
        samples: Draws that a prediction is the mean of; None for a method that does not draw.
        seed: Seed of the random draws.
    """

    name: ClassVar[str] = "ood"
    test_data: str
    images: int | None
    ood_data: str
    ood_images: int | None
    samples: int | None
    seed: int

    @property
    def data(self) -> Mapping[str, str]:
        """Both sets of test images."""
        return {self.test_data: "test", self.ood_data: "test"}

    def run(self, model: TrainedModel, sources: Sequence[TrainedModel] = ()) -> Numbers:
        """Scores, and the share of images with at most an entropy."""
        model = with_samples(model, self.samples)
        known = predict(model, images_of(self.test_data, self.images).images, self.seed)
        ood = predict(model, images_of(self.ood_data, self.ood_images).images, self.seed)
        known_curve = entropy_cdf(known, POINTS)
        ood_curve = entropy_cdf(ood, POINTS)
        return {
            "images": {"known": len(known), "ood": len(ood)},
            "scores": detection_summary(known, ood),
            "entropy": ood_curve.entropy,
            "share": {"known": known_curve.share, "ood": ood_curve.share},
        }


@dataclass(frozen=True)
class Rotation(Measurement):
    """What is said of a turning 1, and the strip of its pictures.

    Args:
        test_data: The data set whose narrowest test image of a 1 is turned.
        degrees: The angles.
        samples: Draws that a prediction is the mean of; None for a method that does not draw.
        seed: Seed of the random draws.
    """

    name: ClassVar[str] = "rotation"
    test_data: str
    degrees: tuple[int, ...]
    samples: int | None
    seed: int

    @property
    def data(self) -> Mapping[str, str]:
        """The test images."""
        return {self.test_data: "test"}

    def run(self, model: TrainedModel, sources: Sequence[TrainedModel] = ()) -> Numbers:
        """Probabilities and uncertainty at each angle."""
        turned = turned_one(self.test_data, self.degrees)
        prediction = predict(with_samples(model, self.samples), turned, self.seed)
        return {
            "degrees": self.degrees,
            "classes": model.classes,
            "probabilities": prediction.probabilities,
            "uncertainty": prediction.uncertainty,
            "entropy": prediction.entropy(normalized=True),
            "strip": _strip(turned),
        }


@dataclass(frozen=True)
class Attack(Measurement):
    """What attacks share: adversarial images for each epsilon, and what a network says of them.

    Args:
        test_data, images: So many test images are attacked.
        batch: So many at once.
        samples: Draws that an attacked prediction is the mean of; None for a method that does not draw.
        epsilons: How far a pixel may move, as a part of its range.
        seed: Seed of all random draws.
    """

    version: ClassVar[int] = 2
    test_data: str
    images: int
    batch: int
    samples: int | None
    epsilons: tuple[float, ...]
    seed: int

    @property
    def data(self) -> Mapping[str, str]:
        """The test images."""
        return {self.test_data: "test"}

    def _images_and_labels(self, model: TrainedModel) -> tuple[Tensor, Tensor]:
        """Images (N, C, H, W) in [0, 1] and labels (N,)."""
        data = images_of(self.test_data, self.images)
        return data.images[:].float() / WHITE, model.labels_of(data)

    def _gradient(self, probabilities: Probabilities, images: Tensor, labels: Tensor) -> Tensor:
        parts = []
        batches = zip(torch.split(images, self.batch), torch.split(labels, self.batch), strict=True)
        for some_images, some_labels in batches:
            parts.append(loss_gradient(probabilities, some_images, some_labels))
        return torch.cat(parts)

    def _curve(
        self, model: TrainedModel, adversarial: Mapping[float, Tensor], labels: Tensor
    ) -> dict[str, list[float | None]]:
        """Of each epsilon: accuracy, strict and by raw outputs, and entropy, of all and of the wrong.

        A method that draws answers with other draws than those that its attacker has seen.
        """
        curve: dict[str, list[float | None]] = {
            "epsilon": [],
            "accuracy": [],
            "raw_accuracy": [],
            "entropy": [],
            "entropy_when_wrong": [],
            "vacuous": [],
        }
        for epsilon, images in adversarial.items():
            prediction = predict(model, images * WHITE, UNSEEN_DRAWS + self.seed)
            entropy = prediction.entropy(normalized=True).double()
            wrong = ~right_answers(prediction, labels)
            curve["epsilon"].append(epsilon)
            curve["accuracy"].append(accuracy(prediction, labels))
            curve["raw_accuracy"].append(raw_accuracy(prediction, labels))
            curve["entropy"].append(float(entropy.mean()))
            curve["entropy_when_wrong"].append(float(entropy[wrong].mean()) if bool(wrong.any()) else None)
            curve["vacuous"].append(float(prediction.is_vacuous.double().mean()))
        return curve


@dataclass(frozen=True)
class FastGradientSign(Attack):
    """FGSM by the model's own gradient, with the share of images whose gradient is exactly zero."""

    name: ClassVar[str] = "fgsm"

    def run(self, model: TrainedModel, sources: Sequence[TrainedModel] = ()) -> Numbers:
        """A curve over the epsilons."""
        model = with_samples(model, self.samples)
        images, labels = self._images_and_labels(model)
        gradient = self._gradient(probabilities_of(model, self.seed), images, labels)
        adversarial = {epsilon: fgsm(images, gradient, epsilon) for epsilon in self.epsilons}
        return {
            "images": len(labels),
            "curve": self._curve(model, adversarial, labels),
            "without_gradient": _share_without(gradient),
        }


@dataclass(frozen=True)
class ProjectedGradient(Attack):
    """PGD by the model's own gradient, from a start drawn at random.

    Args:
        steps: So many steps.
        fresh_draws: Whether a method that draws does so anew in every step.
    """

    name: ClassVar[str] = "pgd"
    steps: int
    fresh_draws: bool

    def run(self, model: TrainedModel, sources: Sequence[TrainedModel] = ()) -> Numbers:
        """A curve over the epsilons, with the share of images that the last step left without gradient."""
        model = with_samples(model, self.samples)
        images, labels = self._images_and_labels(model)
        probabilities = probabilities_of(model, self.seed, self.fresh_draws)
        adversarial = {}
        for place, epsilon in enumerate(self.epsilons):
            start = torch.Generator().manual_seed(self.seed * len(self.epsilons) + place)
            adversarial[epsilon] = self._moved(probabilities, images, labels, epsilon, start)
        curve = self._curve(model, adversarial, labels)
        curve["without_gradient"] = [
            _share_without(self._gradient(probabilities, moved, labels)) for moved in adversarial.values()
        ]
        return {"images": len(labels), "curve": curve}

    def _moved(
        self,
        probabilities: Probabilities,
        images: Tensor,
        labels: Tensor,
        epsilon: float,
        start: torch.Generator,
    ) -> Tensor:
        parts = []
        batches = zip(torch.split(images, self.batch), torch.split(labels, self.batch), strict=True)
        for some_images, some_labels in batches:
            parts.append(pgd(probabilities, some_images, some_labels, epsilon, self.steps, start))
        return torch.cat(parts)


@dataclass(frozen=True)
class Transfer(Attack):
    """FGSM images made on another network: they need no gradient of the model that is shown them.

    Args:
        source: The training of that other network.
    """

    name: ClassVar[str] = "transfer"
    source: TrainingPlan

    @property
    def sources(self) -> tuple[TrainingPlan, ...]:
        """The network that the images are made on."""
        return (self.source,)

    def run(self, model: TrainedModel, sources: Sequence[TrainedModel] = ()) -> Numbers:
        """A curve over the epsilons."""
        if len(sources) != 1:
            raise InputError("transferred attacks need the model that they come from")
        model = with_samples(model, self.samples)
        images, labels = self._images_and_labels(model)
        gradient = self._gradient(probabilities_of(sources[0], self.seed), images, labels)
        adversarial = {epsilon: fgsm(images, gradient, epsilon) for epsilon in self.epsilons}
        return {"images": len(labels), "curve": self._curve(model, adversarial, labels)}


@lru_cache(maxsize=3)
def images_of(data: str, count: int | None = None) -> Dataset:
    """So many test images of a data set, the same each time; None or more than there are: all of them."""
    test = load(data, "test")
    if count is None or count >= len(test):
        return test
    return test.subset(count, torch.Generator().manual_seed(SUBSET_SEED))


@lru_cache(maxsize=1)
def turned_one(data: str, degrees: tuple[int, ...]) -> Tensor:
    """The narrowest 1 of the test images, turned by each of the angles, (A, C, H, W)."""
    test = images_of(data)
    ones = test.images[test.labels == test.classes.index("1")]
    return rotate(narrowest(ones), degrees)


def with_samples(model: TrainedModel, samples: int | None) -> TrainedModel:
    """The same weights, asked with so many draws."""
    if samples is None:
        return model
    method: Any = model.method
    return replace(model, method=replace(method, samples=samples))


def predict(model: TrainedModel, images: Tensor | StoredArray, seed: int) -> Prediction:
    """With draws of its own, whatever was asked before."""
    return model.predict(images, generator=torch.Generator().manual_seed(seed))


def evidence_numbers(prediction: Prediction, labels: Tensor) -> Numbers | None:
    """How much evidence there is, where the prediction is an opinion.

    dead: the classes without evidence on any image; vacuous: the share of images without any at all.
    """
    if not isinstance(prediction, Opinion):
        return None
    right = right_answers(prediction, labels)
    total = prediction.evidence.double().sum(1)
    belief = prediction.belief.amax(1)
    return {
        "right": total[right].mean(),
        "wrong": total[~right].mean(),
        "median": total.median(),
        "highest": total.max(),
        "belief": belief.double().mean(),
        "belief_when_wrong": belief[~right].double().mean(),
        "vacuous": prediction.is_vacuous.double().mean(),
        "dead": (prediction.evidence.amax(0) == 0).nonzero().flatten(),
    }


def _share_without(gradient: Tensor) -> float:
    return float(without_gradient(gradient).double().mean())


def _strip(images: Tensor) -> str:
    """Images (A, 1, H, W) in a row as PNG, in base64."""
    from PIL import Image

    file = BytesIO()
    row = torch.cat(list(images[:, 0]), dim=1)
    Image.fromarray(row.numpy()).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()
