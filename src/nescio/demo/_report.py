"""The report: one HTML file with everything in it."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import torch
from torch import Tensor

from nescio._files import write_atomically
from nescio.data import Dataset
from nescio.demo._figures import charts
from nescio.demo._run import DemoResult
from nescio.errors import DataError, ModelFileError
from nescio.opinions.opinion import Opinion
from nescio.reports._page import page_template

TEMPLATE = "report.html.j2"
TYPICAL_DIGITS = 4
DOUBTFUL_DIGITS = 2
SAMPLE_LETTERS = 6
SURE = 0.9
ALMOST_ONE = 0.999
# What is measured, how it is called, and whether it is a share.
ROWS = (
    ("accuracy", "right answers on digits", True),
    ("auroc", "detection of letters by entropy, AUROC", False),
    ("entropy_letters", "mean entropy on letters, 0 to 1", False),
    ("entropy_digits", "mean entropy on digits, 0 to 1", False),
    ("abstained_letters", "letters answered with “I do not know”", True),
    ("abstained_digits", "digits answered with “I do not know”", True),
)


@dataclass(frozen=True)
class Row:
    """A line of the table: what was measured, and both models' figures as text."""

    label: str
    evidential: str
    softmax: str


@dataclass(frozen=True)
class Sample:
    """An input as a picture, with what both models say of it. belief, probabilities: K numbers."""

    truth: str
    picture: str
    classes: tuple[str, ...]
    belief: tuple[float, ...]
    uncertainty: float
    answer: str | None
    probabilities: tuple[float, ...]
    softmax_answer: str

    @property
    def verdict(self) -> str:
        """What the evidential model answers."""
        if self.answer is None:
            return "I do not know"
        return f"It is {article(self.answer)}"

    @property
    def softmax_verdict(self) -> str:
        """What the softmax model answers, with its probability."""
        most = max(self.probabilities)
        share = "above 99.9%" if most > ALMOST_ONE else f"{most:.1%}"
        return f"{article(self.softmax_answer).capitalize()}, {share}"


def article(name: str) -> str:
    """A digit or letter with its article."""
    return f"an {name}" if name in "8AEFHILMNORSX" else f"a {name}"


def table(outcome: DemoResult) -> list[Row]:
    """The figures of both models, ready to print."""
    rows = []
    for name, label, is_share in ROWS:
        evidential = _figure(outcome.evidential.figures[name], is_share)
        softmax = _figure(outcome.softmax.figures[name], is_share)
        rows.append(Row(label, evidential, softmax))
    return rows


def digit_samples(outcome: DemoResult) -> list[Sample]:
    """A few classes' first test digits, and those that the evidential model doubts most."""
    doubt = outcome.evidential.digits.uncertainty.argsort(descending=True)[:DOUBTFUL_DIGITS].tolist()
    typical = _first_of_classes(outcome.inputs.test, TYPICAL_DIGITS)
    return [_sample(outcome, "digits", index) for index in typical + doubt]


def letter_samples(outcome: DemoResult) -> list[Sample]:
    """A few classes' first letters."""
    chosen = _first_of_classes(outcome.inputs.letters, SAMPLE_LETTERS)
    return [_sample(outcome, "letters", index) for index in chosen]


def sure_of_letters(outcome: DemoResult) -> float:
    """The share of letters that softmax calls some digit with a probability of 90% or more."""
    return float((outcome.softmax.letters.max_probability() >= SURE).double().mean())


def render(outcome: DemoResult) -> str:
    """The report as HTML."""
    from markupsafe import Markup

    return page_template(Path(__file__).with_name(TEMPLATE)).render(
        outcome=outcome,
        table=table(outcome),
        digits=digit_samples(outcome),
        letters=letter_samples(outcome),
        sure_of_letters=sure_of_letters(outcome),
        charts={name: Markup(chart) for name, chart in charts(outcome).items()},
    )


def write_report(outcome: DemoResult, folder: Path) -> Path:
    """Both models and the report into the folder; gives the report's path."""
    path = folder / "report.html"
    try:
        outcome.evidential.model.save(folder / "edl.safetensors")
        outcome.softmax.model.save(folder / "softmax.safetensors")
        write_atomically(path, render(outcome).encode())
    except ModelFileError as error:
        raise DataError(f"{folder} can't be written to: {error}") from error
    except OSError as error:
        raise DataError(f"{folder} can't be written to: {error.strerror or error}") from error
    return path


def picture(image: Tensor) -> str:
    """An image (1, H, W) as PNG in a data address."""
    from PIL import Image

    file = BytesIO()
    Image.fromarray(image[0].numpy()).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _sample(outcome: DemoResult, of: str, index: int) -> Sample:
    model = outcome.evidential.model
    if of == "digits":
        data = outcome.inputs.test
        opinion = outcome.evidential.digits[[index]]
        softmax = outcome.softmax.digits[[index]]
    else:
        data = outcome.inputs.letters
        opinion = outcome.evidential.letters[[index]]
        softmax = outcome.softmax.letters[[index]]
    assert isinstance(opinion, Opinion)
    answer = None
    if bool(model.accepts(opinion)[0]):
        answer = model.classes[int(opinion.labels[0])]
    return Sample(
        truth=data.classes[int(data.labels[index])],
        picture=picture(data.images[index]),
        classes=model.classes,
        belief=tuple(opinion.belief[0].tolist()),
        uncertainty=float(opinion.uncertainty[0]),
        answer=answer,
        probabilities=tuple(softmax.probabilities[0].tolist()),
        softmax_answer=model.classes[int(softmax.labels[0])],
    )


def _first_of_classes(data: Dataset, count: int) -> list[int]:
    """The first sample of each of so many classes, spread evenly over those that there are."""
    firsts = []
    for label in torch.unique(data.labels):
        indices = (data.labels == label).nonzero()
        firsts.append(int(indices[0]))
    return [firsts[place * len(firsts) // count] for place in range(count)]


def _figure(value: float, is_share: bool) -> str:
    if is_share:
        return f"{100 * value:.1f}%"
    return f"{value:.3f}"
