"""What is measured of a trained network, part by part: pure functions from a model and images to numbers."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from io import BytesIO
from typing import Any

import torch
from torch import Tensor

from nescio.data import Dataset, load
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
    WHITE,
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
from nescio.studies.sensoy2018.experiments import (
    FGSM,
    KNOWN,
    PGD,
    ROTATION,
    STRANGERS,
    TRANSFER,
    Experiment,
    Measuring,
)

Numbers = dict[str, Any]

ANGLES = tuple(range(0, 181, 10))
POINTS = 101
DRAW = 0  # the seed of every subset: all networks are asked about the same images
NEW_DRAWS = 1_000_000  # seeds of answers under attack from here on: an attack does not know their draws
ATTACKING = 2  # to be raised when the same settings come to give other numbers under attack


@lru_cache(maxsize=3)
def images_of(data: str, count: int | None = None) -> Dataset:
    """The test images that all experiments of a study are asked about; loaded once for all."""
    return at_most(load(data, "test"), count)


@lru_cache(maxsize=1)
def turned_one(data: str) -> Tensor:
    """The narrowest 1 of the test images, turned by each of the angles, (A, C, H, W)."""
    test = images_of(data)
    return rotate(narrowest(test.images[test.labels == test.classes.index("1")]), ANGLES)


def at_most(data: Dataset, count: int | None) -> Dataset:
    """So many samples, drawn the same way each time; None or more than there are: all of them."""
    if count is None or count >= len(data):
        return data
    return data.subset(count, torch.Generator().manual_seed(DRAW))


def part_settings(part: str, experiment: Experiment) -> dict[str, Any]:
    """Everything that a part's numbers depend on beside the trained weights."""
    study, measuring, changes = experiment.study, experiment.study.measuring, experiment.changes
    if part in (KNOWN, STRANGERS):
        shared = {"known": measuring.known, "method": dict(changes.measured)}
        more = {"data": study.strangers, "strangers": measuring.strangers} if part == STRANGERS else {}
        return {**shared, **more}
    if part == ROTATION:
        return {"angles": ANGLES, "method": dict(changes.measured)}
    settings = {
        "version": ATTACKING,
        "images": measuring.attacked,
        "batch": measuring.batch,
        "method": {**changes.measured, **changes.attacked},
        "epsilon": measuring.pgd if part == PGD else measuring.fgsm,
    }
    if part == PGD:
        settings["steps"] = measuring.steps
    if part == TRANSFER:
        settings["source"] = experiment.source.description()
    return settings


def measure(part: str, experiment: Experiment, model: TrainedModel, source: TrainedModel | None) -> Numbers:
    """The numbers of a part. source: the model whose adversarial images are shown, for transferred ones."""
    study, changes, seed = experiment.study, experiment.changes, experiment.seed
    if part in (FGSM, PGD, TRANSFER):
        model = measured_with(model, {**changes.measured, **changes.attacked})
        images = images_of(study.data, study.measuring.attacked)
        return attack_numbers(part, experiment, model, images, source)
    model = measured_with(model, changes.measured)
    if part == ROTATION:
        return rotation_numbers(model, turned_one(study.data), seed)
    if part not in (KNOWN, STRANGERS):
        raise InputError(f"there is no part {part!r}")
    images = images_of(study.data, study.measuring.known)
    known = predicted(model, images.images, seed)
    if part == KNOWN:
        return known_numbers(known, model.labels_of(images))
    strangers = images_of(study.strangers, study.measuring.strangers)
    return stranger_numbers(known, predicted(model, strangers.images, seed))


def measured_with(model: TrainedModel, settings: Mapping[str, Any]) -> TrainedModel:
    """The same weights, asked with other settings of the method, as fewer samples."""
    if not settings:
        return model
    try:
        return replace(model, method=replace(model.method, **settings))  # type: ignore[type-var]
    except TypeError as error:
        raise InputError(f"settings do not fit the method {model.method.name}: {error}") from error


def predicted(model: TrainedModel, images: Tensor, seed: int) -> Prediction:
    """With draws of its own, whatever was asked before."""
    return model.predict(images, generator=torch.Generator().manual_seed(seed))


def known_numbers(prediction: Prediction, labels: Tensor) -> Numbers:
    """Scores on the classes it was trained on, accuracy against threshold, and its evidence."""
    curve = accuracy_against_threshold(prediction, labels)
    return {
        "scores": summary(prediction, labels),
        "threshold": {name: getattr(curve, name) for name in ("threshold", "accuracy", "coverage")},
        "evidence": evidence_numbers(prediction, labels),
    }


def evidence_numbers(prediction: Prediction, labels: Tensor) -> Numbers | None:
    """How much evidence there is, where the prediction is an opinion.

    dead: classes without evidence on any image; rejected: the share of images without any at all.
    """
    if not isinstance(prediction, Opinion):
        return None
    right = right_answers(prediction, labels)
    total = prediction.evidence.double().sum(1)
    dead = (prediction.evidence.amax(0) == 0).nonzero().flatten()
    return {
        "right": total[right].mean(),
        "wrong": total[~right].mean(),
        "median": total.median(),
        "highest": total.max(),
        "belief": prediction.belief.amax(1).double().mean(),
        "belief_when_wrong": prediction.belief.amax(1)[~right].double().mean(),
        "rejected": prediction.is_vacuous.double().mean(),
        "dead": dead,
    }


def stranger_numbers(known: Prediction, unknown: Prediction) -> Numbers:
    """How strangers are told, and the distribution of the entropy of both."""
    curves = {"known": entropy_cdf(known, POINTS), "unknown": entropy_cdf(unknown, POINTS)}
    return {
        # The committed results say unknown where the metrics say ood.
        "scores": {
            name.replace("ood_", "unknown_"): value
            for name, value in detection_summary(known, unknown).items()
        },
        "entropy": curves["unknown"].entropy,
        "share": {name: curve.share for name, curve in curves.items()},
    }


def rotation_numbers(model: TrainedModel, rotated: Tensor, seed: int) -> Numbers:
    """What is said of the turning 1, and the strip of its pictures."""
    prediction = predicted(model, rotated, seed)
    return {
        "degrees": ANGLES,
        "classes": model.classes,
        "probabilities": prediction.probabilities,
        "uncertainty": prediction.uncertainty,
        "entropy": prediction.entropy(normalized=True),
        "strip": strip(rotated),
    }


def strip(images: Tensor) -> str:
    """Images (A, 1, H, W) in a row as PNG, in base64."""
    from PIL import Image

    file = BytesIO()
    Image.fromarray(torch.cat(list(images[:, 0]), dim=1).numpy()).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def attack_numbers(
    part: str, experiment: Experiment, model: TrainedModel, data: Dataset, source: TrainedModel | None
) -> Numbers:
    """Accuracy and entropy on adversarial images for each epsilon.

    without_gradient: the share of images whose gradient is exactly zero; of PGD for each epsilon, where its
    last step has left them.
    """
    measuring, seed, labels = experiment.study.measuring, experiment.seed, model.labels_of(data)
    images, batch = data.images.float() / WHITE, measuring.batch
    attacked = source if part == TRANSFER else model
    if attacked is None:
        raise InputError("transferred attacks need the model that they come from")
    probabilities = probabilities_of(attacked, seed)

    def gradient(at: Tensor) -> Tensor:
        parts = zip(torch.split(at, batch), torch.split(labels, batch), strict=True)
        return torch.cat([loss_gradient(probabilities, *pair) for pair in parts])

    def stuck(found: Tensor) -> float:
        return float(without_gradient(found).double().mean())

    if part == PGD:
        moved = pgd_images(probabilities, images, labels, measuring, seed)
        curve = attack_curve(model, moved, labels, seed)
        return {"curve": {**curve, "without_gradient": [stuck(gradient(each)) for each in moved.values()]}}
    direction = gradient(images)
    moved = {epsilon: fgsm(images, direction, epsilon) for epsilon in measuring.fgsm}
    curve = attack_curve(model, moved, labels, seed)
    return {"curve": curve} | ({"without_gradient": stuck(direction)} if part == FGSM else {})


def pgd_images(
    probabilities: Probabilities, images: Tensor, labels: Tensor, measuring: Measuring, seed: int
) -> dict[float, Tensor]:
    """For each epsilon the images as PGD moves them, from a start of its own."""

    def moved(epsilon: float, start: torch.Generator) -> Tensor:
        parts = zip(torch.split(images, measuring.batch), torch.split(labels, measuring.batch), strict=True)
        return torch.cat([pgd(probabilities, *pair, epsilon, measuring.steps, start) for pair in parts])

    first = seed * len(measuring.pgd)
    return {
        epsilon: moved(epsilon, torch.Generator().manual_seed(first + place))
        for place, epsilon in enumerate(measuring.pgd)
    }


def attack_curve(
    model: TrainedModel, moved: Mapping[float, Tensor], labels: Tensor, seed: int
) -> dict[str, list[float | None]]:
    """Of each epsilon: accuracy (u = 1 is wrong, and by arg-max) and entropy, of all and of the wrong.

    A method that draws answers with other draws than those that its attacker has seen.
    """
    rows = []
    for epsilon, images in moved.items():
        prediction = predicted(model, images * WHITE, NEW_DRAWS + seed)
        entropy = prediction.entropy(normalized=True).double()
        wrong = ~right_answers(prediction, labels)
        rows.append(
            {
                "epsilon": epsilon,
                "accuracy": accuracy(prediction, labels),
                "raw_accuracy": raw_accuracy(prediction, labels),
                "entropy": float(entropy.mean()),
                "entropy_when_wrong": float(entropy[wrong].mean()) if bool(wrong.any()) else None,
                "rejected": float(prediction.is_vacuous.double().mean()),
            }
        )
    return {name: [row[name] for row in rows] for name in rows[0]}
