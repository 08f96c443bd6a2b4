"""The style that all charts share, and charts as SVG that takes its colours from the page it stands in."""

from __future__ import annotations

import re
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
