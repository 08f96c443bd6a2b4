"""The three losses compared: the paper says that two of them give too much belief and are less stable."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from matplotlib.ticker import NullFormatter

from nescio.plots import PALETTE
from nescio.studies.sensoy2018.book import MNIST, TITLES, Book, at, spread
from nescio.studies.sensoy2018.drawing import LOOKS, Drawn, panels, styled
from nescio.studies.sensoy2018.experiments import KNOWN, LOSSES, STRANGERS
from nescio.studies.sensoy2018.results import Result

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
    ("mean entropy on strangers, %", (STRANGERS, "scores", "unknown_mean_entropy"), 1, 100.0),
    ("AUROC on strangers", (STRANGERS, "scores", "entropy_auroc"), 3, 1.0),
)
DRAWN = (0, 1, 3, 6)
OF_ANY_SIZE = (3, 4)  # evidence: by powers of ten
LARGE = 1e4
HEADER = ("loss", "seeds", *(heading for heading, *_ in MEASURES))


def table(book: Book) -> list[tuple[str, ...]]:
    """A line for each loss: means over the seeds with their standard deviations."""
    study = book.study(MNIST)
    return [
        (
            name,
            str(len(book.numbers(study, variant, KNOWN))),
            *(
                shown(book.values(study, variant, *path), digits, scale)
                for _, path, digits, scale in MEASURES
            ),
        )
        for variant, name in LOSSES.items()
    ]


def shown(values: Sequence[float], digits: int, scale: float) -> str:
    """As `spread`; large numbers in scientific form."""
    if not values or scale * statistics.fmean(values) < LARGE:
        return spread(values, digits, scale)
    mean = scientific(scale * statistics.fmean(values))
    return mean if len(values) == 1 else f"{mean} ± {scientific(scale * statistics.stdev(values))}"


def scientific(value: float) -> str:
    """Two digits and a power of ten: 2.5e9."""
    digits, power = f"{value:.1e}".split("e")
    return f"{digits}e{int(power)}"


@styled
def draw(book: Book) -> list[Drawn]:
    """A point for each seed, a panel for each of some measures."""
    study = book.study(MNIST)
    there = book.variants(study, KNOWN, tuple(LOSSES))
    if study is None or not there:
        return []
    figure, grid = panels(2, rows=2, tall=1.7)
    for axes, place in zip(grid.flat, DRAWN, strict=True):
        heading, path, _, scale = MEASURES[place]
        for height, variant in enumerate(there):
            colour, _, marker = LOOKS[variant]
            values = [scale * value for value in book.values(study, variant, *path)]
            axes.plot(values, [height] * len(values), marker, color=PALETTE[colour], markersize=9, alpha=0.75)
        axes.set(ylim=(len(there) - 0.4, -0.6), yticks=range(len(there)))
        axes.set_yticklabels(
            [LOSSES[variant] for variant in there] if axes in grid[:, 0] else [""] * len(there)
        )
        axes.set_title(heading, loc="left", size=11)
        axes.margins(x=0.12)
        if place in OF_ANY_SIZE:
            _by_powers_of_ten(axes)
    caption = (
        f"EDL on {TITLES[study]} with each of the paper's losses and exp evidence, all else alike; a point "
        "for each seed."
    )
    return [Drawn("losses", "The three losses", caption, figure, _rows(book, study))]


def _by_powers_of_ten(axes: Any) -> None:
    """From one power of ten to another, and only these are named."""
    axes.set_xscale("log")
    low, high = (math.log10(end) for end in axes.get_xlim())
    axes.set_xlim(10.0 ** math.floor(low), 10.0 ** math.ceil(high))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _rows(book: Book, study: str) -> list[dict[str, object]]:
    def value(result: Result, path: Path, scale: float) -> float | None:
        found = at(result.numbers(path[0]), path[1:])
        return None if found is None else scale * found

    return [
        {
            "data": study,
            "method": variant,
            "seed": result.seed,
            **{heading: value(result, path, scale) for heading, path, _, scale in MEASURES},
        }
        for variant in LOSSES
        for result in book.of(study, variant)
    ]
