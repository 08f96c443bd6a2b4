"""Figure 2: accuracy of what is answered, and how much is, against the uncertainty that is allowed."""

from __future__ import annotations

from nescio.studies._figures import Curve, Figure, Row, add_legend, draw_curve, panels
from nescio.studies.sensoy2018._arms import EVIDENTIAL_ARMS
from nescio.studies.sensoy2018._looks import curve_rows, in_our_style, look
from nescio.studies.sensoy2018._results import TITLES, PaperResults
from nescio.studies.sensoy2018.presets import KNOWN

ROOM = (-0.03, 1.03)  # what happens at u = 1 shall not hide on the edge


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
            draw_curve(grid[0, column], _accuracy(results, comparison, arm), look(arm, marker_every=10))
            draw_curve(grid[1, column], _coverage(results, comparison, arm), look(arm, marker_every=10))
        for axes in grid[:, column]:
            axes.set(xlim=ROOM)
            axes.yaxis.set_major_formatter("{x:g}")
        grid[0, column].set_title(TITLES[comparison], loc="left", weight="bold")
        grid[1, column].set(xlabel="uncertainty allowed", ylim=(-3, 103))
        rows += curve_rows(results, comparison, arms, KNOWN, lambda numbers: dict(numbers["threshold"]))
    grid[0, 0].set_ylabel("accuracy of these, %")
    grid[1, 0].set_ylabel("answered, %")
    add_legend(picture)
    caption = (
        "Above: strict accuracy on the test images whose uncertainty is not above the threshold; below: "
        "their share. Where no image is that certain there is no accuracy. At 1 those without any evidence "
        "are answered too, and count as wrong. The bands are 95% intervals: over three seeds, or over the "
        "images of one."
    )
    return [Figure("figure2", "Figure 2: accuracy against uncertainty", caption, picture, rows)]


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
