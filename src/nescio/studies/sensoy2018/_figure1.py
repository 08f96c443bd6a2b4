"""Figure 1: a digit 1 turned from 0 to 180 degrees; softmax beside EDL with its uncertainty."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Picture

from nescio.plots import INK, PALETTE
from nescio.studies._figures import THIRD, Figure, Row, add_legend
from nescio.studies.results import Result
from nescio.studies.sensoy2018._arms import label
from nescio.studies.sensoy2018._looks import in_our_style
from nescio.studies.sensoy2018._results import MNIST, TITLES, PaperResults
from nescio.studies.sensoy2018.presets import ROTATED_ARMS, ROTATION

COLOURS = ("blue", "vermillion", "green", "purple", "orange", "sky")
MARKERS = "osD^vP"
WIDTH = 10.6  # inches, of all panels together at most
PEAK = 0.2  # a class is drawn when some model at some angle finds it at least so probable
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
        _draw_lines(axes, numbers[arm], classes, with_uncertainty=arm != "l2")
        _draw_strip(grid[1][column], numbers[arm])
        title = "softmax (L2)" if arm == "l2" else label(arm)
        axes.set_title(title, loc="left", weight="bold", size=11)
    grid[0][0].set_ylabel("probability")
    add_legend(picture, columns=len(classes) + 1)
    caption = (
        f"The narrowest 1 of the test images of {TITLES[comparison]}, turned counter-clockwise; "
        f"{_seeds(first)}. Classes that stay below {100 * PEAK:.0f}% at every angle are not drawn, nor more "
        f"than {len(COLOURS)}."
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
    """The 1, then what some model finds probable at some angle; no more than there are colours."""
    peaks = np.max([np.max(numbers["probabilities"], axis=0) for numbers in all_numbers], axis=0)
    peaks[all_numbers[0]["classes"].index("1")] = 2.0
    probable = []
    for place in np.argsort(-peaks, kind="stable"):
        if peaks[place] >= PEAK:
            probable.append(int(place))
    return probable[: len(COLOURS)]


def _draw_lines(axes: Any, numbers: Any, classes: Sequence[int], with_uncertainty: bool) -> None:
    probabilities = np.array(numbers["probabilities"])
    for place, one in enumerate(classes):
        axes.plot(
            numbers["degrees"],
            probabilities[:, one],
            label=numbers["classes"][one],
            color=PALETTE[COLOURS[place]],
            marker=MARKERS[place],
        )
    if with_uncertainty:
        axes.plot(numbers["degrees"], numbers["uncertainty"], color=INK, linestyle="--", label="uncertainty")
    axes.set(xlim=(-10, 190), ylim=(-0.03, 1.03), xticks=TICKS, xticklabels=[])


def _draw_strip(axes: Any, numbers: Any) -> None:
    """Every second picture of the 1, below the angles."""
    from PIL import Image

    row = np.array(Image.open(BytesIO(base64.b64decode(numbers["strip"]))))
    side = row.shape[0]
    tiles = [row[:, place * side : (place + 1) * side] for place in range(0, row.shape[1] // side, 2)]
    half = (numbers["degrees"][2] - numbers["degrees"][0]) / 2
    ends = (numbers["degrees"][0] - half, numbers["degrees"][-1] + half)
    axes.imshow(np.concatenate(tiles, axis=1), cmap="gray", aspect="auto", extent=(*ends, 0, 1))
    axes.set(xlim=ends, xticks=TICKS, yticks=[], xlabel="turned by, degrees")
    axes.grid(False)


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
