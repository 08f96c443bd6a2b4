"""Figures 4 and 5: accuracy and entropy under attack, and what flatters these curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evidentia.paper.book import CIFAR5, MNIST, TITLES, Book, label, percent
from evidentia.paper.drawing import (
    LOOKS,
    THIRD,
    Curve,
    Drawn,
    Row,
    curve_rows,
    draw_curves,
    legend,
    panels,
    styled,
)
from evidentia.paper.experiments import COMPARED, FGSM, PGD, SOURCE, TRANSFER
from evidentia.paper.figure2 import in_percent
from evidentia.plots import PALETTE

WITHOUT_ENSEMBLE = tuple(variant for variant in COMPARED if variant != "ensemble")
AXES = {
    "accuracy": "accuracy, %",
    "entropy": "entropy, % of maximum",
    "entropy_when_wrong": "entropy when wrong, %",
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
        "gradient; u = 1 counts as wrong."
    )
    if "ensemble" in shown:
        caption += " Deep Ensemble was trained on such images, which is why the paper leaves it out."
    rows = curve_rows(book, study, shown, FGSM, lambda numbers: dict(numbers["curve"]))
    return Drawn(name, title, caption, figure, rows)


def _honest_panels(book: Book, study: str, name: str, title: str) -> Drawn:
    figure, grid = panels(3, rows=2, tall=2.9, wide=THIRD)
    _draw_without_gradient(grid[0, 0], book, study)
    places = (
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
        "An image whose gradient is exactly zero can't be moved by these attacks: it flatters the curves. "
        "Images made on L2 need no gradient of the model that is shown them, and PGD takes "
        f"{_steps(book, study)} smaller steps from a start drawn at random."
    )
    rows = [
        {"attack": part, **row}
        for part in (FGSM, TRANSFER, PGD)
        for row in curve_rows(book, study, COMPARED, part, _lists)
    ]
    return Drawn(name, title, caption, figure, rows)


def _lists(numbers: Any) -> Row:
    curve = dict(numbers["curve"])
    if "without_gradient" in numbers:
        curve["without_gradient"] = [numbers["without_gradient"]] * len(curve["epsilon"])
    return curve


def _draw(axes: Any, book: Book, study: str, part: str, measure: str, shown: Sequence[str]) -> None:
    def curves(variant: str) -> list[Curve]:
        # To L2 its own images are those made on L2.
        asked = FGSM if part == TRANSFER and variant == SOURCE else part
        found = [each["curve"] for each in book.numbers(study, variant, asked)]
        return [(each["epsilon"], in_percent(each[measure])) for each in found]

    draw_curves(axes, shown, curves, markers=1)
    axes.set(xlabel="epsilon", ylabel=AXES[measure], ylim=(-2, 102))
    axes.set_xlim(left=0)


def _draw_without_gradient(axes: Any, book: Book, study: str) -> None:
    shown = [name for name in COMPARED if book.mean(study, name, FGSM, "without_gradient") is not None]
    shares = [100 * (book.mean(study, name, FGSM, "without_gradient") or 0.0) for name in shown]
    bars = axes.barh(
        [label(name) for name in shown],
        shares,
        color=[PALETTE[LOOKS[name][0]] for name in shown],
        height=0.65,
    )
    axes.bar_label(bars, fmt="%.1f", padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.set_xlim(left=0, right=max(1.0, 1.25 * max(shares)))
    axes.set_xlabel("images, %")
    axes.set_title("gradient exactly zero", loc="left", weight="bold", size=11)
    axes.grid(axis="y", visible=False)


def _settings(book: Book, study: str, part: str) -> Any:
    first = book.variants(study, part)
    return book.of(study, first[0])[0].parts[part]["settings"] if first else {}


def _images(book: Book, study: str) -> int:
    return int(_settings(book, study, FGSM)["images"])


def _steps(book: Book, study: str) -> str:
    return str(_settings(book, study, PGD).get("steps", "several"))


def table(book: Book, study: str) -> list[tuple[str, ...]]:
    """For each method: images without gradient, samples drawn, means over epsilon."""
    rows = []
    for variant in COMPARED:
        settings = [each.parts[FGSM]["settings"] for each in book.of(study, variant) if FGSM in each.parts]
        samples = settings[0]["method"].get("samples") if settings else None
        share = book.mean(study, variant, FGSM, "without_gradient")
        rows.append(
            (
                label(variant),
                "-" if samples is None else str(samples),
                percent(share),
                *(percent(over_epsilons(book, study, variant, part, name)) for part, name in TABLE_COLUMNS),
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
)
HEADER = (
    "method",
    "samples",
    "zero gradient, %",
    *(
        f"{name}: {measure}, %"
        for name in ("FGSM", "from L2", "PGD")
        for measure in ("accuracy", "entropy when wrong")
    ),
)


def over_epsilons(book: Book, study: str | None, variant: str, part: str, measure: str) -> float | None:
    """The mean of a measure over all epsilons above zero and all seeds; None where there is none."""
    points = [
        value
        for numbers in book.numbers(study, variant, part)
        for epsilon, value in zip(numbers["curve"]["epsilon"], numbers["curve"][measure], strict=True)
        if epsilon > 0 and value is not None
    ]
    return sum(points) / len(points) if points else None
