"""Figure 1: a digit 1 turned from 0 to 180 degrees; softmax beside EDL with its uncertainty."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Picture

from nescio.plots import RotationDisplay, add_legend
from nescio.plots._rotation import PEAK, probable_classes
from nescio.plots._style import LINE_COLOURS
from nescio.studies._figures import THIRD, Figure, Row
from nescio.studies.results import Result
from nescio.studies.sensoy2018._arms import label
from nescio.studies.sensoy2018._looks import in_our_style
from nescio.studies.sensoy2018._results import MNIST, TITLES, PaperResults
from nescio.studies.sensoy2018.presets import ROTATED_ARMS, ROTATION

WIDTH = 10.6  # inches, of all panels together at most
TICKS = range(0, 181, 60)  # degrees; more of them touch each other where there are four panels


@in_our_style
def draw(results: PaperResults) -> list[Figure]:
    """The first seed of each arm; nothing where none was measured."""
    comparison = results.comparison(MNIST)
    arms = results.arms(comparison, ROTATION, ROTATED_ARMS)
    if comparison is None or not arms:
        return []
    first = {}
    numbers = {}
    for arm in arms:
        first[arm] = _first_result(results, comparison, arm)
        numbers[arm] = first[arm].numbers[ROTATION]
    classes = classes_drawn(list(numbers.values()))
    width = min(THIRD, WIDTH / len(arms))
    picture = Picture(figsize=(width * len(arms), 3.6), layout="constrained")
    grid = picture.subplots(2, len(arms), squeeze=False, height_ratios=(1, 0.13))
    for column, arm in enumerate(arms):
        axes = grid[0][column]
        display = _display(numbers[arm], with_uncertainty=arm != "l2")
        display.plot(axes, strip_ax=grid[1][column], drawn=classes)
        axes.set(xticks=TICKS, xticklabels=[], ylabel="")
        grid[1][column].set(xticks=TICKS)
        title = "softmax (L2)" if arm == "l2" else label(arm)
        axes.set_title(title, loc="left", weight="bold", size=11)
    grid[0][0].set_ylabel("probability")
    add_legend(picture, columns=len(classes) + 1)
    caption = (
        f"The narrowest 1 of the test images of {TITLES[comparison]}, turned counter-clockwise; "
        f"{_seeds(first)}. Classes that stay below {100 * PEAK:.0f}% at every angle are not drawn, nor more "
        f"than {len(LINE_COLOURS)}."
    )
    rows: list[Row] = []
    for result in first.values():
        rows += _rows(result)
    return [Figure("figure1", "Figure 1: the turning 1", caption, picture, rows)]


def _first_result(results: PaperResults, comparison: str, arm: str) -> Result:
    return next(each for each in results.of(comparison, arm) if ROTATION in each.numbers)


def _seeds(first: Mapping[str, Result]) -> str:
    """The seeds in words: one where all have the same."""
    seeds = {result.seed for result in first.values()}
    if len(seeds) == 1:
        return f"seed {seeds.pop()}"
    named = [f"{label(arm)} {result.seed}" for arm, result in first.items()]
    return f"seeds: {', '.join(named)}"


def classes_drawn(all_numbers: Sequence[Any]) -> list[int]:
    """The 1, then what some model finds probable at some angle."""
    all_probabilities = [numbers["probabilities"] for numbers in all_numbers]
    return probable_classes(all_probabilities, all_numbers[0]["classes"].index("1"))


def _display(numbers: Any, with_uncertainty: bool) -> RotationDisplay:
    from PIL import Image

    row = np.array(Image.open(BytesIO(base64.b64decode(numbers["strip"]))))
    side = row.shape[0]
    return RotationDisplay(
        numbers["degrees"],
        numbers["probabilities"],
        uncertainty=numbers["uncertainty"] if with_uncertainty else None,
        images=[row[:, place : place + side] for place in range(0, row.shape[1], side)],
        classes=numbers["classes"],
    )


def _rows(result: Result) -> list[Row]:
    numbers = result.numbers[ROTATION]
    rows: list[Row] = []
    for place, degrees in enumerate(numbers["degrees"]):
        row: Row = {
            "data": result.comparison,
            "method": result.arm,
            "seed": result.seed,
            "degrees": degrees,
            "uncertainty": numbers["uncertainty"][place],
        }
        for name, probability in zip(numbers["classes"], numbers["probabilities"][place], strict=True):
            row[f"probability_{name}"] = probability
        rows.append(row)
    return rows
