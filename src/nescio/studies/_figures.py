"""The figures of a study: lines over several seeds, and files as PNG, SVG and CSV."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure as Picture

from nescio._files import write_atomically
from nescio.plots import png, style
from nescio.studies._estimates import Estimate, estimate

THIRD = 3.3  # inches, the width of one of three panels beside each other
DPI = 200

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
        lines: A value from 0 to 1 for each seed at each point, None where there is none.
        is_share: Whether the values are shares of images.
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

    def line(self, scale: float = 1.0) -> tuple[list[float], tuple[list[float], list[float]]]:
        """The means, and the lower and upper ends of their intervals; NaN where there is none."""
        means = []
        lows = []
        highs = []
        for found in self.estimates():
            mean = math.nan
            low = math.nan
            high = math.nan
            if found is not None:
                mean = scale * found.mean
                if found.interval is not None:
                    low = scale * found.interval.low
                    high = scale * found.interval.high
            means.append(mean)
            lows.append(low)
            highs.append(high)
        return means, (lows, highs)


def write_figure(figure: Figure, folder: Path) -> None:
    """PNG for print, SVG, and CSV with every point of every seed."""
    with style(dark=False):
        write_atomically(folder / f"{figure.name}.png", png(figure.picture, DPI))
        file = BytesIO()
        figure.picture.savefig(file, format="svg", dpi=DPI, facecolor="white", metadata={"Date": None})
        write_atomically(folder / f"{figure.name}.svg", file.getvalue())
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
