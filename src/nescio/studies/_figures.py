"""How the figures of a study are drawn: panels of one size, lines with bands, PNG, SVG and CSV."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure as Picture

from nescio._files import write_atomically
from nescio.plots import STYLE
from nescio.studies._estimates import Estimate, estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL = (4.3, 3.1)  # inches; two beside each other fill a printed page
THIRD = 3.3  # the width of one of three beside each other
DPI = 200
LEGEND_ROW = 0.27
BAND = 0.16  # how dense a band is

Row = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """A figure of a report.

    Args:
        name: The name of its files.
        title: Above it.
        caption: What it shows, in words.
        picture: The figure that matplotlib drew.
        rows: Its numbers, for a CSV file.
    """

    name: str
    title: str
    caption: str
    picture: Picture
    rows: Sequence[Row]


@dataclass(frozen=True)
class Curve:
    """One line for each seed, all at the same points.

    Args:
        at: The points, (P,).
        lines: A value for each seed at each point, None where there is none.
        is_share: Whether the values are shares, between 0 and 1.
        images: Number of images at each point (P,), where the values are shares.
    """

    at: Sequence[float]
    lines: Sequence[Sequence[float | None]]
    is_share: bool = False
    images: Sequence[int | None] | None = None

    def estimates(self) -> list[Estimate | None]:
        """The mean over the seeds at each point with its interval; None where a seed has no value."""
        found: list[Estimate | None] = []
        for place, values in enumerate(zip(*self.lines, strict=True)):
            present = [value for value in values if value is not None]
            images = None if self.images is None else self.images[place]
            if len(present) < len(values):
                found.append(None)
            else:
                found.append(estimate(present, self.is_share, images))
        return found


def draw_curve(axes: Axes, curve: Curve, style: Mapping[str, Any], scale: float = 100.0) -> None:
    """A line through the means, and a band over the intervals where there are any."""
    means = []
    lows = []
    highs = []
    for found in curve.estimates():
        mean, low, high = math.nan, math.nan, math.nan
        if found is not None:
            mean = scale * found.mean
            if found.interval is not None:
                low = scale * found.interval.low
                high = scale * found.interval.high
        means.append(mean)
        lows.append(low)
        highs.append(high)
    axes.plot(curve.at, means, **style)
    axes.fill_between(curve.at, lows, highs, color=style["color"], alpha=BAND, linewidth=0)


def panels(
    columns: int, rows: int = 1, height: float = PANEL[1], width: float = PANEL[0]
) -> tuple[Picture, Any]:
    """A picture with a grid of axes (rows, columns), each of this size in inches."""
    picture = Picture(figsize=(width * columns, height * rows), layout="constrained")
    return picture, picture.subplots(rows, columns, squeeze=False)


def add_legend(picture: Picture, columns: int = 4) -> None:
    """One legend for all panels in room of its own above them."""
    found: dict[str, Any] = {}
    for axes in picture.axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    if not found:
        return
    room = LEGEND_ROW * math.ceil(len(found) / columns) + 0.1
    width, height = picture.get_size_inches()
    picture.set_size_inches(width, height + room)
    picture.set_layout_engine("constrained", rect=(0, 0, 1, height / (height + room)))
    picture.legend(
        list(found.values()),
        list(found),
        loc="upper center",
        ncols=columns,
        columnspacing=1.4,
        handlelength=2.8,
    )


def write_figure(figure: Figure, folder: Path) -> None:
    """PNG for print, SVG, and CSV with every point of every seed."""
    with mpl.rc_context(STYLE):
        for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            file = BytesIO()
            figure.picture.savefig(file, format=kind, dpi=DPI, facecolor="white", metadata=metadata)
            write_atomically(folder / f"{figure.name}.{kind}", file.getvalue())
    write_atomically(folder / f"{figure.name}.csv", to_csv(figure.rows).encode())


def to_csv(rows: Iterable[Row]) -> str:
    """Rows as comma-separated text with a header; an empty cell for None."""
    rows = list(rows)
    names: dict[str, None] = {}
    for row in rows:
        names |= dict.fromkeys(row)
    file = StringIO()
    writer = csv.DictWriter(file, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
