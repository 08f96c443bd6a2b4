"""Train an evidential and a softmax network alike, and measure both on the same inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nescio.data import Dataset, load
from nescio.errors import InputError
from nescio.inference.model import TrainedModel
from nescio.methods import EDL, Method, Softmax
from nescio.metrics import detection_summary, narrowest, rotate, summary
from nescio.opinions.categorical import Prediction
from nescio.training import TrainingSettings

EPOCHS = 40
BATCH_SIZE = 128
LETTERS = 2_000
LEAST_SAMPLES = 100
PAPERS_LOSS = EDL(risk="squared_error", divergence_weight=1.0)  # of which the demo tells
ANGLES = tuple(range(0, 181, 10))

Report = Callable[[str, dict[str, float]], None]


@dataclass(frozen=True, eq=False)
class Inputs:
    """Digits to train on and to test with, letters, and a 1 turned by each of the angles (A, 1, 28, 28)."""

    train: Dataset
    test: Dataset
    letters: Dataset
    rotated: Tensor


@dataclass(frozen=True, eq=False)
class ModelResult:
    """A model, what it says of each input, and the figures that follow.

    figures: accuracy, auroc (digits against letters, by entropy), mean normalised entropy and share of
    "I do not know" on digits and on letters, which are out of distribution.
    """

    name: str
    model: TrainedModel
    digits: Prediction
    letters: Prediction
    rotated: Prediction
    figures: dict[str, float]


@dataclass(frozen=True, eq=False)
class DemoResult:
    """Both models on the same inputs."""

    inputs: Inputs
    settings: TrainingSettings
    evidential: ModelResult
    softmax: ModelResult

    @property
    def both(self) -> tuple[ModelResult, ModelResult]:
        """The evidential one first."""
        return self.evidential, self.softmax


def demo_settings(seed: int = 0, epochs: int | None = None) -> TrainingSettings:
    """How both networks are trained."""
    return TrainingSettings(EPOCHS if epochs is None else epochs, BATCH_SIZE, seed=seed)


def demo_inputs(samples: int | None = None) -> Inputs:
    """Handwritten digits, and letters; samples: no more than these of each."""
    if samples is not None and samples < LEAST_SAMPLES:
        raise InputError(f"samples must be {LEAST_SAMPLES} or more, got {samples}")
    train = load("digits")
    test = load("digits", "test")
    num_letters = min(LETTERS, samples or LETTERS)
    return Inputs(
        train=_at_most(train, samples),
        test=_at_most(test, samples),
        letters=load("letters", "test").take(torch.arange(num_letters)),
        rotated=rotate(upright_one(test), ANGLES),
    )


def upright_one(digits: Dataset) -> Tensor:
    """A 1 that stands as straight as any, (1, 28, 28)."""
    return narrowest(digits.images[digits.labels == digits.classes.index("1")])


def run_demo(settings: TrainingSettings, inputs: Inputs, report: Report | None = None) -> DemoResult:
    """Train and measure both; report is given the model's name and each epoch's metrics."""
    evidential = _measure("evidential", PAPERS_LOSS, settings, inputs, report)
    softmax = _measure("softmax", Softmax(), settings, inputs, report)
    return DemoResult(inputs, settings, evidential, softmax)


def _measure(
    name: str, method: Method, settings: TrainingSettings, inputs: Inputs, report: Report | None
) -> ModelResult:
    def report_epoch(metrics: dict[str, float]) -> None:
        if report is not None:
            report(name, metrics)

    model = TrainedModel.train(inputs.train, method, None, settings, report=report_epoch)
    digits = model.predict(inputs.test.images)
    letters = model.predict(inputs.letters.images)
    on_digits = summary(digits, model.labels_of(inputs.test))
    on_letters = detection_summary(known=digits, ood=letters)
    figures = {
        "accuracy": on_digits["accuracy"],
        "auroc": on_letters["entropy_auroc"],
        "entropy_letters": on_letters["ood_mean_entropy"],
        "entropy_digits": on_digits["mean_entropy"],
        "abstained_letters": _abstained_share(model, letters),
        "abstained_digits": _abstained_share(model, digits),
    }
    return ModelResult(name, model, digits, letters, model.predict(inputs.rotated), figures)


def _abstained_share(model: TrainedModel, prediction: Prediction) -> float:
    return float((~model.accepts(prediction)).double().mean())


def _at_most(data: Dataset, count: int | None) -> Dataset:
    if count is None or count >= len(data):
        return data
    return data.subset(count, torch.Generator().manual_seed(0))
