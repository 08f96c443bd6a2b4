"""How the arms are drawn: one look each in all figures, and the rows of their curves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any

from nescio.plots import PALETTE, style
from nescio.studies._figures import Figure, Row
from nescio.studies.sensoy2018._arms import label
from nescio.studies.sensoy2018._results import PaperResults

Dashes = str | tuple[float, tuple[float, ...]]
Drawing = Callable[[PaperResults], list[Figure]]

LEGEND_COLUMNS = 3  # where all nine methods are shown: three of three

# Colour, dashes and marker. Dashes and markers differ between any two that are compared, and so do the
# colours but those of the two with ReLU evidence: lines are told apart in grey and with any colour vision.
LOOKS: Mapping[str, tuple[str, Dashes, str]] = {
    "l2": ("vermillion", "--", "s"),
    "dropout": ("green", "-.", "^"),
    "ensemble": ("purple", (0, (8, 2)), "v"),
    "ffgu": ("orange", (0, (5, 1.2, 1, 1.2, 1, 1.2)), "D"),
    "fflu": ("muted", ":", "P"),
    "mnfg": ("sky", (0, (2, 1)), "X"),
    "edl": ("blue", "-", "o"),
    "edl-printed": ("ink", (0, (5, 1)), "*"),
    "edl-notebook": ("ink", (0, (1, 1.4)), "h"),
    "edl-cross-entropy": ("green", "-.", "^"),
    "edl-type2": ("vermillion", "--", "s"),
}


def look(arm: str, marker_every: int = 0) -> dict[str, Any]:
    """How an arm's line is drawn.

    Args:
        arm: Its name.
        marker_every: A marker at every so many points; 0 for none.
    """
    colour, dashes, marker = LOOKS[arm]
    style: dict[str, Any] = {"color": PALETTE[colour], "linestyle": dashes, "label": label(arm)}
    if marker_every:
        style |= {"marker": marker, "markevery": marker_every}
    return style


def in_our_style(draw: Drawing) -> Drawing:
    """A function that draws, in the style that all charts share."""

    @wraps(draw)
    def inner(results: PaperResults) -> list[Figure]:
        with style(dark=False):
            return draw(results)

    return inner


def curve_rows(
    results: PaperResults,
    comparison: str,
    arms: Iterable[str],
    measurement: str,
    curve_of: Callable[[Any], Mapping[str, Any]],
) -> list[Row]:
    """Every point of every seed.

    Args:
        results: Results where the numbers are looked up.
        comparison, arms, measurement: What is shown.
        curve_of: Function from the numbers of a measurement to lists of one length, by name.
    """
    rows: list[Row] = []
    for arm in arms:
        for result in results.of(comparison, arm):
            if measurement not in result.numbers:
                continue
            lists = curve_of(result.numbers[measurement])
            for point in zip(*lists.values(), strict=True):
                named = dict(zip(lists, point, strict=True))
                rows.append({"data": comparison, "method": arm, "seed": result.seed, **named})
    return rows
