"""The style that all charts share, and charts as SVG that takes its colours from the page it stands in."""

from __future__ import annotations

import re
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito: told apart with any kind of colour vision. The names are those of the page's variables.
PALETTE = {
    "blue": "#0072b2",
    "vermillion": "#d55e00",
    "green": "#009e73",
    "purple": "#cc79a7",
    "orange": "#e69f00",
    "sky": "#56b4e9",
    "ink": "#1b1f24",
    "muted": "#5c6670",
    "grid": "#d8dde2",
}
INK = PALETTE["ink"]
STYLE: Any = {
    "font.size": 12,
    "axes.labelsize": 12,
    "axes.edgecolor": PALETTE["muted"],
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": PALETTE["grid"],
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 11,
    "legend.labelcolor": INK,
    "lines.linewidth": 2.2,
    "lines.markersize": 5.5,
    "text.color": INK,
    "xtick.color": PALETTE["muted"],
    "ytick.color": PALETTE["muted"],
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "nescio",
}

WIDTH = 5.2  # inches: at a telephone's 345 pixels the font is still above 10
LEFT = 0.75
RIGHT = 0.16
BELOW = 0.62
TALL = 2.6
TITLE = 0.38
LEGEND_ROW = 0.24


def panel(legend_rows: int = 1, gap: float = 0.0) -> tuple[Figure, Axes]:
    """Axes of the same size in every figure, with room for a title, a legend and a gap below.

    Args:
        legend_rows: Lines of the legend.
        gap: Room below the axes in inches, for what else is drawn there.

    Returns:
        The figure, and its axes.

    Example:
        >>> figure, axes = panel()
        >>> float(figure.get_figwidth())
        5.2
    """
    from matplotlib.figure import Figure

    height = BELOW + gap + TALL + LEGEND_ROW * legend_rows + TITLE
    figure = Figure(figsize=(WIDTH, height))
    return figure, figure.add_axes(box(height, BELOW + gap, TALL))


def box(height: float, below: float, tall: float) -> tuple[float, float, float, float]:
    """Left, bottom, width and height of axes as parts of a figure.

    Args:
        height: The height of the figure in inches.
        below: Where the axes begin in it, in inches.
        tall: The height of the axes in inches.

    Returns:
        What `Figure.add_axes` takes.

    Example:
        >>> box(4.0, 1.0, 2.0)[1::2]
        (0.25, 0.5)
    """
    return LEFT / WIDTH, below / height, 1 - (LEFT + RIGHT) / WIDTH, tall / height


def add_heading(figure: Figure, axes: Axes, title: str, columns: int = 2) -> None:
    """Put a title, and a legend where lines have labels, above the axes, where they cover nothing.

    Args:
        figure: A figure made by `panel`.
        axes: Its axes.
        title: The title.
        columns: Columns of the legend.

    Example:
        >>> figure, axes = panel()
        >>> line = axes.plot([0, 1], label="one")
        >>> add_heading(figure, axes, "A line")
        >>> axes.get_legend().texts[0].get_text()
        'one'
    """
    if axes.get_legend_handles_labels()[0]:
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1),
            borderaxespad=0.2,
            borderpad=0,
            ncols=columns,
            columnspacing=1.4,
            handlelength=1.8,
        )
    figure.text(LEFT / WIDTH, 1 - 0.08 / figure.get_figheight(), title, va="top", size=13, weight="bold")


def svg(figure: Figure, name: str) -> str:
    """A figure as an SVG element that takes its colours from the page, and nothing else from outside.

    Args:
        figure: A matplotlib figure, drawn in the colours of PALETTE.
        name: Put before all identifiers, so that several figures can stand in one page.

    Returns:
        The `<svg>` element as text.

    Example:
        >>> from matplotlib.figure import Figure
        >>> figure = Figure(figsize=(2, 1))
        >>> line = figure.add_subplot().plot([0, 1], color=PALETTE["blue"])
        >>> text = svg(figure, "chart")
        >>> text.startswith("<svg viewBox="), "var(--blue, #0072b2)" in text
        (True, True)
    """
    file = StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    text = re.sub(r"<metadata>.*?</metadata>", "", file.getvalue(), flags=re.DOTALL)
    box = re.search(r'<svg[^>]*?(viewBox="[^"]*")[^>]*>(.*)', text, flags=re.DOTALL)
    assert box is not None
    text = f'<svg {box[1]} aria-hidden="true">{box[2]}'
    for before in ('id="', "url(#", 'href="#'):
        text = text.replace(before, f"{before}{name}-")
    for variable, colour in PALETTE.items():
        text = text.replace(colour, f"var(--{variable}, {colour})")
    return text
