"""Figures 4 and 5: accuracy and entropy under attack, and what flatters these curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nescio.studies.sensoy2018.book import CIFAR5, MNIST, TITLES, Book, label, percent
from nescio.studies.sensoy2018.drawing import (
    THIRD,
    Curve,
    Drawn,
    curve_rows,
    draw_curves,
    legend,
    panels,
    styled,
)
from nescio.studies.sensoy2018.experiments import COMPARED, FGSM, PGD, SOURCE, TRANSFER
from nescio.studies.sensoy2018.figure2 import in_percent

WITHOUT_ENSEMBLE = tuple(variant for variant in COMPARED if variant != "ensemble")
NAMES = {
    "accuracy": "accuracy",
    "entropy": "entropy",
    "entropy_when_wrong": "entropy when wrong",
    "without_gradient": "zero gradient",
}
AXES = {
    "accuracy": "accuracy, %",
    "entropy": "entropy, % of maximum",
    "entropy_when_wrong": "entropy when wrong,\n% of maximum",
    "without_gradient": "images, %",
}
NUMBERS = {MNIST: "figure4", CIFAR5: "figure5"}


@styled
def draw(book: Book) -> list[Drawn]:
    """For each data set that was attacked: the paper's two panels, the ensemble's, and the honest ones."""
    drawn: list[Drawn] = []
    for role, name in NUMBERS.items():
        study = book.study(role)
        if study is None or not book.variants(study, FGSM):
            continue
        title = f"Figure {name[-1]}: attacks on {TITLES[study]}"
        drawn.append(_paper_panels(book, study, name, title, WITHOUT_ENSEMBLE))
        if book.numbers(study, "ensemble", FGSM):
            drawn.append(
                _paper_panels(book, study, f"{name}-ensemble", f"{title}, with Deep Ensemble", COMPARED)
            )
        drawn.append(_honest_panels(book, study, f"{name}-honest", f"{title}, looked at twice"))
    return drawn


def _paper_panels(book: Book, study: str, name: str, title: str, shown: Sequence[str]) -> Drawn:
    figure, grid = panels(2)
    for axes, measure in zip(grid[0], ("accuracy", "entropy"), strict=True):
        _draw(axes, book, study, FGSM, measure, shown)
    legend(figure)
    caption = (
        f"Fast gradient sign attacks on {_images(book, study)} test images, each model attacked by its own "
        "gradient; u = 1 counts as wrong. A method that draws answers with draws that its attacker has not "
        "seen."
    )
    if "ensemble" in shown:
        caption += " Deep Ensemble was trained on such images, which is why the paper leaves it out."
    rows = curve_rows(book, study, shown, FGSM, lambda numbers: dict(numbers["curve"]))
    return Drawn(name, title, caption, figure, rows)


def _honest_panels(book: Book, study: str, name: str, title: str) -> Drawn:
    figure, grid = panels(3, rows=2, tall=2.9, wide=THIRD)
    places = (
        (grid[0, 0], PGD, "without_gradient", "PGD: gradient exactly zero"),
        (grid[0, 1], TRANSFER, "accuracy", "FGSM images of L2"),
        (grid[0, 2], PGD, "accuracy", "PGD"),
        (grid[1, 0], FGSM, "entropy_when_wrong", "FGSM"),
        (grid[1, 1], TRANSFER, "entropy_when_wrong", "FGSM images of L2"),
        (grid[1, 2], PGD, "entropy_when_wrong", "PGD"),
    )
    for axes, part, measure, heading in places:
        _draw(axes, book, study, part, measure, COMPARED)
        axes.set_title(heading, loc="left", weight="bold", size=11)
    legend(figure)
    caption = (
        "An image whose gradient is exactly zero can't be moved by an attack that follows it, which looks "
        "like strength and is none; at epsilon 0 are the images as they are. Images made on L2 need no "
        f"gradient of the model that is shown them. PGD takes {_steps(book, study)} smaller steps from a "
        "start drawn at random; of a method that draws, its gradient is a mean over the same few draws at "
        "every step, and fresh ones would make a stronger attack. Where few images are wrong, at a small "
        "epsilon, so few are in the mean."
    )
    rows = [
        {"attack": part, **row}
        for part in (FGSM, TRANSFER, PGD)
        for row in curve_rows(book, study, COMPARED, part, lambda numbers: dict(numbers["curve"]))
    ]
    return Drawn(name, title, caption, figure, rows)


def _draw(axes: Any, book: Book, study: str, part: str, measure: str, shown: Sequence[str]) -> None:
    def curves(variant: str) -> list[Curve]:
        # To L2 its own images are those made on L2.
        asked = FGSM if part == TRANSFER and variant == SOURCE else part
        found = [each["curve"] for each in book.numbers(study, variant, asked)]
        return [(each["epsilon"], in_percent(each[measure])) for each in found]

    draw_curves(axes, shown, curves, markers=1)
    axes.set(xlabel="epsilon", ylabel=AXES[measure], ylim=(-2, 102))
    axes.set_xlim(left=0)


def _settings(book: Book, study: str, part: str) -> Any:
    results = (each for variant in COMPARED for each in book.of(study, variant))
    return next((each.parts[part]["settings"] for each in results if part in each.parts), {})


def _images(book: Book, study: str) -> int:
    return int(_settings(book, study, FGSM)["images"])


def _steps(book: Book, study: str) -> str:
    return str(_settings(book, study, PGD).get("steps", "several"))


def table(book: Book, study: str) -> list[tuple[str, ...]]:
    """For each method: samples drawn, images without gradient, means over the epsilons of all attacks."""
    rows, shared = [], shared_epsilons(book, study)
    for variant in COMPARED:
        settings = [each.parts[FGSM]["settings"] for each in book.of(study, variant) if FGSM in each.parts]
        samples = settings[0]["method"].get("samples") if settings else None
        rows.append(
            (
                label(variant),
                "-" if samples is None else str(samples),
                percent(book.mean(study, variant, FGSM, "without_gradient")),
                *(
                    percent(over_epsilons(book, study, variant, part, measure, shared))
                    for part, measure in TABLE_COLUMNS
                ),
            )
        )
    return rows


TABLE_COLUMNS = (
    (FGSM, "accuracy"),
    (FGSM, "entropy_when_wrong"),
    (TRANSFER, "accuracy"),
    (TRANSFER, "entropy_when_wrong"),
    (PGD, "accuracy"),
    (PGD, "entropy_when_wrong"),
    (PGD, "without_gradient"),
)
WORDS = {FGSM: "FGSM", TRANSFER: "from L2", PGD: "PGD"}
HEADER = (
    "method",
    "samples",
    "zero gradient, %",
    *(f"{WORDS[part]}: {NAMES[measure]}, %" for part, measure in TABLE_COLUMNS),
)


def shared_epsilons(book: Book, study: str) -> list[float]:
    """Those above zero that both FGSM and PGD were made with: attacks are compared at the same strength."""
    weak, strong = (_settings(book, study, part).get("epsilon", ()) for part in (FGSM, PGD))
    return [epsilon for epsilon in weak if epsilon > 0 and (epsilon in strong or not strong)]


def over_epsilons(
    book: Book,
    study: str | None,
    variant: str,
    part: str,
    measure: str,
    epsilons: Sequence[float] | None = None,
) -> float | None:
    """The mean of a measure over these epsilons, by default all above zero, and all seeds; None for none.

    A measure of the wrong counts each wrong image alike, however many there are at an epsilon.
    """
    pairs = []
    for numbers in book.numbers(study, variant, part):
        curve = numbers["curve"]
        for place, epsilon in enumerate(curve["epsilon"]):
            wanted = epsilon > 0 if epsilons is None else epsilon in epsilons
            if wanted and curve[measure][place] is not None:
                weight = 1 - curve["accuracy"][place] if measure == "entropy_when_wrong" else 1.0
                pairs.append((weight, curve[measure][place]))
    total = sum(weight for weight, _ in pairs)
    return sum(weight * value for weight, value in pairs) / total if total else None
