"""How the paper's figures are drawn: one look for each variant, panels of one size, PNG, SVG and CSV."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure

from nescio._files import write_atomically
from nescio.plots import PALETTE, STYLE
from nescio.studies.sensoy2018.book import Book, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL, THIRD = (4.3, 3.1), 3.3  # inches; two or three beside each other fill a printed page
DPI = 200
LEGEND_ROW = 0.27
Row = dict[str, Any]
Curve = tuple[Sequence[float], Sequence[float | None]]

Dashes = str | tuple[float, tuple[float, ...]]

# Colour, dashes and marker all differ between any two that are compared: the lines are told apart in grey
# and with any colour vision.
LOOKS: Mapping[str, tuple[str, Dashes, str]] = {
    "l2": ("vermillion", "--", "s"),
    "dropout": ("green", "-.", "^"),
    "ensemble": ("purple", (0, (8, 2)), "v"),
    "ffgu": ("orange", (0, (5, 1.2, 1, 1.2, 1, 1.2)), "D"),
    "fflu": ("muted", ":", "P"),
    "mnfg": ("sky", (0, (2, 1)), "X"),
    "edl": ("blue", "-", "o"),
    "edl-paper": ("ink", (0, (5, 1)), "*"),
    "edl-cross-entropy": ("green", "-.", "^"),
    "edl-type2": ("vermillion", "--", "s"),
}


@dataclass(frozen=True)
class Drawn:
    """A figure, what it shows in words, and its numbers as rows of a table."""

    name: str
    title: str
    caption: str
    figure: Figure
    rows: Sequence[Row]


def look(variant: str, markers: int = 0) -> dict[str, Any]:
    """How a variant's line is drawn. markers: one at every so many points; 0 at none."""
    colour, dashes, marker = LOOKS[variant]
    style: dict[str, Any] = {"color": PALETTE[colour], "linestyle": dashes, "label": label(variant)}
    if markers:
        style |= {"marker": marker, "markevery": markers}
    return style


def panels(columns: int, rows: int = 1, tall: float = PANEL[1], wide: float = PANEL[0]) -> tuple[Figure, Any]:
    """A grid of axes (rows, columns)."""
    figure = Figure(figsize=(wide * columns, tall * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def legend(figure: Figure, columns: int = 4) -> None:
    """One legend for all panels in room of its own above them."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        handles, names = axes.get_legend_handles_labels()
        found |= {name: handle for handle, name in zip(handles, names, strict=True) if name not in found}
    if not found:
        return
    room = LEGEND_ROW * math.ceil(len(found) / columns) + 0.1
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + room)
    figure.set_layout_engine("constrained", rect=(0, 0, 1, height / (height + room)))
    figure.legend(
        list(found.values()),
        list(found),
        loc="upper center",
        ncols=columns,
        columnspacing=1.4,
        handlelength=2.8,
    )


def draw_curves(
    axes: Axes, variants: Iterable[str], curves: Callable[[str], Sequence[Curve]], markers: int = 0
) -> None:
    """The mean over seeds of each variant's curve, and between its least and greatest a shade.

    curves: from a variant to one curve for each seed, all at the same points.
    """
    for variant in variants:
        pairs = curves(variant)
        if not pairs:
            continue
        at, lines = pairs[0][0], [values for _, values in pairs]
        style = look(variant, markers)
        axes.plot(at, pointwise(statistics.fmean, lines), **style)
        if len(lines) > 1:
            low, high = pointwise(min, lines), pointwise(max, lines)
            axes.fill_between(at, low, high, color=style["color"], alpha=0.15, linewidth=0)


def pointwise(join: Callable[[Any], float], lines: Sequence[Sequence[float | None]]) -> list[float]:
    """One line from several, point by point; NaN where one of them has no value."""
    return [math.nan if None in point else join(point) for point in zip(*lines, strict=True)]


def styled(draw: Callable[[Book], list[Drawn]]) -> Callable[[Book], list[Drawn]]:
    """A function that draws, in the style that all charts share."""

    @wraps(draw)
    def inner(book: Book) -> list[Drawn]:
        with mpl.rc_context(STYLE):
            return draw(book)

    return inner


def write_drawn(drawn: Drawn, folder: Path) -> None:
    """PNG for print, SVG, and CSV with every point of every seed."""
    with mpl.rc_context(STYLE):
        for kind in ("png", "svg"):
            file = BytesIO()
            metadata = {"Software": None} if kind == "png" else {"Date": None}
            drawn.figure.savefig(file, format=kind, dpi=DPI, facecolor="white", metadata=metadata)
            write_atomically(folder / f"{drawn.name}.{kind}", file.getvalue())
    write_atomically(folder / f"{drawn.name}.csv", as_csv(drawn.rows).encode())


def as_csv(rows: Sequence[Row]) -> str:
    """Rows as comma-separated text with a header; nothing for an empty cell."""
    file = StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def curve_rows(
    book: Book, study: str, variants: Iterable[str], part: str, curve: Callable[[Any], Row]
) -> list[Row]:
    """Every point of every seed. curve: from a part's numbers to lists of one length, by name."""
    return [
        {"data": study, "method": variant, "seed": result.seed, **dict(zip(lists, point, strict=True))}
        for variant in variants
        for result in book.of(study, variant)
        if (numbers := result.numbers(part)) is not None
        for lists in [curve(numbers)]
        for point in zip(*lists.values(), strict=True)
    ]
