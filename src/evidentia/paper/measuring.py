"""What is measured of a trained network, part by part: pure functions from a model and images to numbers."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BytesIO
from typing import Any

import torch
from torch import Tensor

from evidentia.core.opinion import Opinion
from evidentia.core.predictive import Predictive
from evidentia.data import Dataset, load
from evidentia.errors import InputError
from evidentia.evaluation import (
    accuracy,
    accuracy_against_threshold,
    argmax_accuracy,
    detection_summary,
    entropy_cdf,
    narrowest,
    rotate,
    summary,
)
from evidentia.evaluation.attacks import WHITE, fgsm, loss_gradient, pgd, probabilities_of, without_gradient
from evidentia.evaluation.calibration import right_answers
from evidentia.model import TrainedModel
from evidentia.paper.experiments import FGSM, KNOWN, PGD, ROTATION, STRANGERS, TRANSFER, Experiment

Numbers = dict[str, Any]

ANGLES = tuple(range(0, 181, 10))
POINTS = 101
DRAW = 0  # the seed of every subset: all networks are asked about the same images


@dataclass(frozen=True, eq=False)
class Asked:
    """The images of a study: to test with, of strangers, to attack, and a 1 turned by each of the angles."""

    known: Dataset
    strangers: Dataset
    attacked: Dataset
    rotated: Tensor | None


@lru_cache(maxsize=1)
def asked(
    data: str, strangers: str, known: int | None, unknown: int | None, attacked: int, turned: bool
) -> Asked:
    """Loaded once for all experiments of a study."""
    test = load(data, "test")
    return Asked(
        at_most(test, known),
        at_most(load(strangers, "test"), unknown),
        at_most(test, attacked),
        rotate(narrowest(test.images[test.labels == test.classes.index("1")]), ANGLES) if turned else None,
    )


def asked_of(experiment: Experiment) -> Asked:
    """What an experiment's network is asked."""
    study, measuring = experiment.study, experiment.study.measuring
    return asked(
        study.data,
        study.strangers,
        measuring.known,
        measuring.strangers,
        measuring.attacked,
        measuring.rotation,
    )


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
        "images": measuring.attacked,
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
    changes, images = experiment.changes, asked_of(experiment)
    if part in (FGSM, PGD, TRANSFER):
        settings = {**changes.measured, **changes.attacked}
        return attack_numbers(part, experiment, measured_with(model, settings), images.attacked, source)
    model, seed = measured_with(model, changes.measured), experiment.seed
    if part == ROTATION:
        assert images.rotated is not None
        return rotation_numbers(model, images.rotated, seed)
    known = predicted(model, images.known.images, seed)
    if part == KNOWN:
        return known_numbers(known, model.labels_of(images.known))
    if part == STRANGERS:
        return stranger_numbers(known, predicted(model, images.strangers.images, seed))
    raise InputError(f"there is no part {part!r}")


def measured_with(model: TrainedModel, settings: Mapping[str, Any]) -> TrainedModel:
    """The same weights, asked with other settings of the method, as fewer samples."""
    if not settings:
        return model
    try:
        return replace(model, method=replace(model.method, **settings))  # type: ignore[type-var]
    except TypeError as error:
        raise InputError(f"settings do not fit the method {model.method.name}: {error}") from error


def predicted(model: TrainedModel, images: Tensor, seed: int) -> Predictive:
    """With draws of its own, whatever was asked before."""
    return model.predict(images, generator=torch.Generator().manual_seed(seed))


def known_numbers(prediction: Predictive, labels: Tensor) -> Numbers:
    """Scores on the classes it was trained on, accuracy against threshold, and its evidence."""
    curve = accuracy_against_threshold(prediction, labels)
    return {
        "scores": summary(prediction, labels),
        "threshold": {name: getattr(curve, name) for name in ("threshold", "accuracy", "coverage")},
        "evidence": evidence_numbers(prediction, labels),
    }


def evidence_numbers(prediction: Predictive, labels: Tensor) -> Numbers | None:
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
        "rejected": prediction.rejected.double().mean(),
        "dead": dead,
    }


def stranger_numbers(known: Predictive, unknown: Predictive) -> Numbers:
    """How strangers are told, and the distribution of the entropy of both."""
    curves = {"known": entropy_cdf(known, POINTS), "unknown": entropy_cdf(unknown, POINTS)}
    return {
        "scores": detection_summary(known, unknown),
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
    """Accuracy and entropy on adversarial images for each epsilon, and how many have no gradient."""
    measuring, seed, labels = experiment.study.measuring, experiment.seed, model.labels_of(data)
    images, batch = data.images.float() / WHITE, measuring.batch
    if part == PGD:
        moved = pgd_images(model, images, labels, measuring.pgd, measuring.steps, batch, seed)
        return {"curve": attack_curve(model, measuring.pgd, moved, labels, seed)}
    attacked = model if part == FGSM else source
    if attacked is None:
        raise InputError("transferred attacks need the model that they come from")
    probabilities = probabilities_of(attacked, seed)
    parts = zip(torch.split(images, batch), torch.split(labels, batch), strict=True)
    gradient = torch.cat([loss_gradient(probabilities, *pair) for pair in parts])
    curve = attack_curve(model, measuring.fgsm, lambda epsilon: fgsm(images, gradient, epsilon), labels, seed)
    return {"curve": curve, "without_gradient": without_gradient(gradient).double().mean()}


def pgd_images(
    model: TrainedModel,
    images: Tensor,
    labels: Tensor,
    epsilons: tuple[float, ...],
    steps: int,
    batch: int,
    seed: int,
) -> Callable[[float], Tensor]:
    """A function from epsilon to the images as PGD moves them, from a start of its own for each epsilon."""
    probabilities = probabilities_of(model, seed)

    def moved(epsilon: float) -> Tensor:
        start = torch.Generator().manual_seed(seed * len(epsilons) + epsilons.index(epsilon))
        parts = zip(torch.split(images, batch), torch.split(labels, batch), strict=True)
        return torch.cat([pgd(probabilities, *pair, epsilon, steps, start) for pair in parts])

    return moved


def attack_curve(
    model: TrainedModel,
    epsilons: tuple[float, ...],
    moved: Callable[[float], Tensor],
    labels: Tensor,
    seed: int,
) -> dict[str, list[float | None]]:
    """Of each epsilon: accuracy (u = 1 is wrong, and by arg-max) and entropy, of all and of the wrong."""
    rows = []
    for epsilon in epsilons:
        prediction = predicted(model, moved(epsilon) * WHITE, seed)
        entropy = prediction.entropy(normalized=True).double()
        wrong = ~right_answers(prediction, labels)
        rows.append(
            {
                "epsilon": epsilon,
                "accuracy": accuracy(prediction, labels),
                "argmax_accuracy": argmax_accuracy(prediction, labels),
                "entropy": float(entropy.mean()),
                "entropy_when_wrong": float(entropy[wrong].mean()) if bool(wrong.any()) else None,
                "rejected": float(prediction.rejected.double().mean()),
            }
        )
    return {name: [row[name] for row in rows] for name in rows[0]}
