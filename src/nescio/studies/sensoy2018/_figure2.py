"""Figure 2: accuracy of what is answered, and how much is, against the uncertainty that is allowed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nescio.plots import ThresholdDisplay, add_legend, panels
from nescio.studies._figures import Curve, Figure, Row
from nescio.studies.sensoy2018._arms import EVIDENTIAL_ARMS
from nescio.studies.sensoy2018._looks import curve_rows, in_our_style, look
from nescio.studies.sensoy2018._results import TITLES, PaperResults
from nescio.studies.sensoy2018.presets import KNOWN

FEWEST = 100  # images that are answered, for a band
MARGIN = 0.08  # above and below the means, of their range


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
        accuracies: list[float] = []
        for arm in arms:
            accuracies += _draw(grid[0, column], "accuracy", _accuracy(results, comparison, arm), arm)
            _draw(grid[1, column], "coverage", _coverage(results, comparison, arm), arm)
        _set_limits(grid[0, column], accuracies)
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
        f"images of one; there is none where fewer than {FEWEST} images are answered."
    )
    return [Figure("figure2", "Figure 2: accuracy against uncertainty", caption, picture, rows)]


def _draw(axes: Any, curve: str, over_seeds: Curve, arm: str) -> list[float]:
    """Draw a line with its band, and give its means."""
    means, band = over_seeds.line()
    if over_seeds.images is not None:
        for place, images in enumerate(over_seeds.images):
            # A handful of images say next to nothing: their intervals would fill the panel.
            if images is not None and images < FEWEST:
                band[0][place] = math.nan
                band[1][place] = math.nan
    display = ThresholdDisplay(over_seeds.at, means, curve=curve, band=band)
    display.plot(axes, line_kw=look(arm, marker_every=10))
    return means


def _set_limits(axes: Any, means: Sequence[float]) -> None:
    """Let the panel reach from the lowest to the highest mean, whatever the bands do."""
    present = [100 * mean for mean in means if not math.isnan(mean)]
    margin = MARGIN * (max(present) - min(present)) or 1.0
    axes.set_ylim(min(present) - margin, max(present) + margin)


def _accuracy(results: PaperResults, comparison: str, arm: str) -> Curve:
    """Of the images that are certain enough, whose number differs from point to point."""
    images = results.images(comparison, arm, KNOWN) or 0
    lines = []
    shares = []
    for numbers in results.numbers(comparison, arm, KNOWN):
        curve = numbers["threshold"]
        lines.append(curve["accuracy"])
        shares.append(curve["coverage"])
    # Of several seeds, the one that answers fewest.
    answered = [max(1, round(min(of_seeds) * images)) for of_seeds in zip(*shares, strict=True)]
    return Curve(curve["threshold"], lines, is_share=True, images=answered)


def _coverage(results: PaperResults, comparison: str, arm: str) -> Curve:
    images = results.images(comparison, arm, KNOWN)
    lines = []
    for numbers in results.numbers(comparison, arm, KNOWN):
        curve = numbers["threshold"]
        lines.append(curve["coverage"])
    return Curve(curve["threshold"], lines, is_share=True, images=[images] * len(lines[0]))
