"""Figure 1: a digit 1 turned from 0 to 180 degrees; softmax beside EDL with its uncertainty."""

from __future__ import annotations

import base64
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from nescio.plots import INK, PALETTE
from nescio.studies.sensoy2018.book import MNIST, TITLES, Book, label
from nescio.studies.sensoy2018.drawing import THIRD, Drawn, Row, legend, styled
from nescio.studies.sensoy2018.experiments import ROTATION
from nescio.studies.sensoy2018.results import Result

SHOWN = ("l2", "edl", "edl-paper")
COLOURS = ("blue", "vermillion", "green", "purple", "orange", "sky")
MARKERS = "osD^vP"
PEAK = 0.2  # a class is drawn when some model at some angle finds it at least so probable


@styled
def draw(book: Book) -> list[Drawn]:
    """The first seed of each variant; nothing where none was measured."""
    study = book.study(MNIST)
    shown = book.variants(study, ROTATION, SHOWN)
    if study is None or not shown:
        return []
    first = {variant: first_result(book, study, variant) for variant in shown}
    found = {variant: result.parts[ROTATION]["numbers"] for variant, result in first.items()}
    figure = Figure(figsize=(THIRD * len(shown), 3.6), layout="constrained")
    grid = figure.subplots(2, len(shown), squeeze=False, height_ratios=(1, 0.13))
    classes = classes_drawn(list(found.values()))
    for axes, strip, (variant, numbers) in zip(*grid, found.items(), strict=True):
        _draw_lines(axes, numbers, classes, with_uncertainty=variant != "l2")
        _draw_strip(strip, numbers)
        axes.set_title("softmax (L2)" if variant == "l2" else label(variant), loc="left", weight="bold")
    grid[0][0].set_ylabel("probability")
    legend(figure, columns=len(classes) + 1)
    caption = (
        f"The narrowest 1 of the test images of {TITLES[study]}, turned counter-clockwise; "
        f"{_seeds(first)}. Classes that stay below {100 * PEAK:.0f}% at every angle are not drawn, nor more "
        f"than {len(COLOURS)}."
    )
    rows = [row for result in first.values() for row in _rows(result)]
    return [Drawn("figure1", "Figure 1: the turning 1", caption, figure, rows)]


def first_result(book: Book, study: str, variant: str) -> Result:
    """Of the least seed for which the 1 was turned."""
    return next(each for each in book.of(study, variant) if ROTATION in each.parts)


def _seeds(results: dict[str, Result]) -> str:
    """The seeds in words: one where all have the same."""
    if len({result.seed for result in results.values()}) == 1:
        return f"seed {next(iter(results.values())).seed}"
    return "seeds: " + ", ".join(f"{label(name)} {result.seed}" for name, result in results.items())


def classes_drawn(all_numbers: list[Any]) -> list[int]:
    """The 1, then what some model finds probable at some angle; no more than there are colours."""
    peaks = np.max([np.max(numbers["probabilities"], axis=0) for numbers in all_numbers], axis=0)
    peaks[all_numbers[0]["classes"].index("1")] = 2.0
    ranked = [int(place) for place in np.argsort(-peaks, kind="stable")]
    return [place for place in ranked if peaks[place] >= PEAK][: len(COLOURS)]


def _draw_lines(axes: Any, numbers: Any, classes: list[int], with_uncertainty: bool) -> None:
    probabilities = np.array(numbers["probabilities"])
    for place, one in enumerate(classes):
        style: dict[str, Any] = {"color": PALETTE[COLOURS[place]], "marker": MARKERS[place]}
        axes.plot(numbers["degrees"], probabilities[:, one], label=numbers["classes"][one], **style)
    if with_uncertainty:
        axes.plot(numbers["degrees"], numbers["uncertainty"], color=INK, linestyle="--", label="uncertainty")
    axes.set(xlim=(-10, 190), ylim=(-0.03, 1.03), xticks=range(0, 181, 30), xticklabels=[])


def _draw_strip(axes: Any, numbers: Any) -> None:
    """Every second picture of the 1, below the angles."""
    from PIL import Image

    row = np.array(Image.open(BytesIO(base64.b64decode(numbers["strip"]))))
    side = row.shape[0]
    tiles = [row[:, place * side : (place + 1) * side] for place in range(0, row.shape[1] // side, 2)]
    half = (numbers["degrees"][2] - numbers["degrees"][0]) / 2
    ends = (numbers["degrees"][0] - half, numbers["degrees"][-1] + half)
    axes.imshow(np.concatenate(tiles, axis=1), cmap="gray", aspect="auto", extent=(*ends, 0, 1))
    axes.set(xlim=ends, xticks=range(0, 181, 30), yticks=[], xlabel="turned by, degrees")
    axes.grid(False)


def _rows(result: Result) -> list[Row]:
    numbers = result.parts[ROTATION]["numbers"]
    return [
        {
            "data": result.study,
            "method": result.variant,
            "seed": result.seed,
            "degrees": degrees,
            "uncertainty": uncertainty,
            **{f"probability_{name}": p for name, p in zip(numbers["classes"], probabilities, strict=True)},
        }
        for degrees, uncertainty, probabilities in zip(
            numbers["degrees"], numbers["uncertainty"], numbers["probabilities"], strict=True
        )
    ]
