"""Figure 2: accuracy of what is answered, and how much is, against the uncertainty that is allowed."""

from __future__ import annotations

from typing import Any

from nescio.plots import ThresholdDisplay, add_legend, panels
from nescio.studies._figures import Curve, Figure, Row
from nescio.studies.sensoy2018._arms import EVIDENTIAL_ARMS
from nescio.studies.sensoy2018._looks import curve_rows, in_our_style, look
from nescio.studies.sensoy2018._results import TITLES, PaperResults
from nescio.studies.sensoy2018.presets import KNOWN


@in_our_style
def draw(results: PaperResults) -> list[Figure]:
    """A column for each data set that was measured."""
    comparisons = [name for name in results.comparisons if results.arms(name, KNOWN, EVIDENTIAL_ARMS)]
    if not comparisons:
        return []
    picture, grid = panels(len(comparisons), rows=2, height=2.5)
    rows: list[Row] = []
    for column, comparison in enumerate(comparisons):
        arms = results.arms(comparison, KNOWN, EVIDENTIAL_ARMS)
        for arm in arms:
            _draw(grid[0, column], "accuracy", _accuracy(results, comparison, arm), arm)
            _draw(grid[1, column], "coverage", _coverage(results, comparison, arm), arm)
        grid[0, column].set_title(TITLES[comparison], loc="left", weight="bold")
        rows += curve_rows(results, comparison, arms, KNOWN, lambda numbers: dict(numbers["threshold"]))
    for axes in grid[0]:
        axes.set_xlabel("")  # it stands below the lower row
    for axes in grid[:, 1:].flat:
        axes.set_ylabel("")
    add_legend(picture)
    caption = (
        "Above: strict accuracy on the test images whose uncertainty is not above the threshold; below: "
        "their share. Where no image is that certain there is no accuracy. At 1 those without any evidence "
        "are answered too, and count as wrong. The bands are 95% intervals: over three seeds, or over the "
        "images of one."
    )
    return [Figure("figure2", "Figure 2: accuracy against uncertainty", caption, picture, rows)]


def _draw(axes: Any, curve: str, over_seeds: Curve, arm: str) -> None:
    means, band = over_seeds.line()
    display = ThresholdDisplay(over_seeds.at, means, curve=curve, band=band)
    display.plot(axes, line_kw=look(arm, marker_every=10))


def _accuracy(results: PaperResults, comparison: str, arm: str) -> Curve:
    """Of the images that are certain enough, whose number differs from point to point."""
    images = results.images(comparison, arm, KNOWN) or 0
    lines = []
    answered = []
    for numbers in results.numbers(comparison, arm, KNOWN):
        curve = numbers["threshold"]
        lines.append(curve["accuracy"])
        answered = [max(1, round(share * images)) for share in curve["coverage"]]
    return Curve(curve["threshold"], lines, is_share=True, images=answered)


def _coverage(results: PaperResults, comparison: str, arm: str) -> Curve:
    images = results.images(comparison, arm, KNOWN)
    lines = []
    for numbers in results.numbers(comparison, arm, KNOWN):
        curve = numbers["threshold"]
        lines.append(curve["coverage"])
    return Curve(curve["threshold"], lines, is_share=True, images=[images] * len(lines[0]))
