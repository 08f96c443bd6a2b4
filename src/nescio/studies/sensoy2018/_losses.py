"""The three losses compared: the paper says that two of them give too much belief and are less stable."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.ticker import NullFormatter

from nescio.plots import PALETTE, panels
from nescio.studies._estimates import Estimate, text_of
from nescio.studies._figures import Figure, Row
from nescio.studies.report import Table
from nescio.studies.results import find
from nescio.studies.sensoy2018._arms import LOSSES
from nescio.studies.sensoy2018._looks import LOOKS, in_our_style
from nescio.studies.sensoy2018._results import MNIST, TITLES, PaperResults
from nescio.studies.sensoy2018.presets import KNOWN, OOD

Path = tuple[str, ...]
# What is shown: heading, where it is found, digits, scale.
MEASURES: tuple[tuple[str, Path, int, float], ...] = (
    ("accuracy, %", (KNOWN, "scores", "accuracy"), 2, 100.0),
    ("calibration error, %", (KNOWN, "scores", "ece"), 2, 100.0),
    ("NLL", (KNOWN, "scores", "nll"), 4, 1.0),
    ("median total evidence", (KNOWN, "evidence", "median"), 0, 1.0),
    ("greatest total evidence", (KNOWN, "evidence", "highest"), 0, 1.0),
    ("mean belief, %", (KNOWN, "evidence", "belief"), 1, 100.0),
    ("mean belief when wrong, %", (KNOWN, "evidence", "belief_when_wrong"), 1, 100.0),
    ("mean entropy on OOD images, %", (OOD, "scores", "ood_mean_entropy"), 1, 100.0),
    ("AUROC on OOD images", (OOD, "scores", "entropy_auroc"), 3, 1.0),
)
ACCURACY = 0
PLOTTED = (0, 1, 3, 6)
OF_ANY_SIZE = (3, 4)  # evidence: by powers of ten
HEADER = ("loss", "seeds", *(heading for heading, *_ in MEASURES))


def table(results: PaperResults) -> Table:
    """A line for each loss."""
    comparison = results.comparison(MNIST)
    rows = []
    for arm, name in LOSSES.items():
        cells = [name, str(len(results.numbers(comparison, arm, KNOWN)))]
        for place, (_, path, digits, scale) in enumerate(MEASURES):
            found = results.average(comparison, arm, *path)
            if place == ACCURACY:
                found = results.share(comparison, arm, *path)
            if found is not None and place in OF_ANY_SIZE:
                found = Estimate(found.mean)  # of numbers over many powers of ten Student's means nothing
            cells.append(text_of(found, digits, scale))
        rows.append(tuple(cells))
    caption = (
        "Means; in brackets 95% intervals over three seeds, or of the accuracy over the images of one. "
        "Evidence has none: it spans powers of ten."
    )
    return Table("losses-table", "The three losses, all else alike", caption, HEADER, rows)


@in_our_style
def draw(results: PaperResults) -> list[Figure]:
    """A point for each seed, a panel for each of some measures."""
    comparison = results.comparison(MNIST)
    arms = results.arms(comparison, KNOWN, tuple(LOSSES))
    if comparison is None or not arms:
        return []
    picture, grid = panels(2, rows=2, height=1.7)
    for axes, place in zip(grid.flat, PLOTTED, strict=True):
        heading, path, _, scale = MEASURES[place]
        for height, arm in enumerate(arms):
            colour, _, marker = LOOKS[arm]
            values = [scale * value for value in results.values(comparison, arm, *path)]
            axes.plot(values, [height] * len(values), marker, color=PALETTE[colour], markersize=9, alpha=0.75)
        axes.set(ylim=(len(arms) - 0.4, -0.6), yticks=range(len(arms)))
        names = [""] * len(arms)
        if axes in grid[:, 0]:
            names = [LOSSES[arm] for arm in arms]
        axes.set_yticklabels(names)
        axes.set_title(heading, loc="left", size=11)
        axes.margins(x=0.12)
        if place in OF_ANY_SIZE:
            _by_powers_of_ten(axes)
    caption = (
        f"EDL on {TITLES[comparison]} with each of the paper's losses and exp evidence, all else alike; a "
        "point for each seed."
    )
    return [Figure("losses", "The three losses", caption, picture, _rows(results, comparison))]


def _by_powers_of_ten(axes: Any) -> None:
    """From one power of ten to another, and only these are named."""
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _rows(results: PaperResults, comparison: str) -> list[Row]:
    rows: list[Row] = []
    for arm in LOSSES:
        for result in results.of(comparison, arm):
            row: Row = {"data": comparison, "method": arm, "seed": result.seed}
            for heading, path, _, scale in MEASURES:
                value = find(result.numbers.get(path[0]), path[1:])
                row[heading] = None if value is None else scale * value
            rows.append(row)
    return rows
