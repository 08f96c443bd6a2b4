"""Figures as files: SVG that takes its colours from the page it stands in, and PNG."""

from __future__ import annotations

import re
from io import BytesIO, StringIO
from typing import TYPE_CHECKING

from nescio.plots._style import PALETTE, page_colour, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def svg(figure: Figure, name: str) -> str:
    """A figure as an SVG element that takes its colours from the page, and nothing else from outside.

    Args:
        figure: A matplotlib figure, drawn in the colours of PALETTE.
        name: Put before all identifiers, so that several figures can stand in one page.

    Returns:
        The `<svg>` element as text.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from nescio.plots import PALETTE, svg
        >>> figure = Figure(figsize=(2, 1))
        >>> line = figure.add_subplot().plot([0, 1], color=PALETTE["blue"])
        >>> text = svg(figure, "chart")
        >>> text.startswith("<svg viewBox="), "var(--blue, #0072b2)" in text
        (True, True)
    """
    file = StringIO()
    with style():
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


def png(figure: Figure, dpi: int = 100) -> bytes:
    """A figure on the colour of the page as the bytes of a PNG file, the same ones each time.

    Args:
        figure: A matplotlib figure.
        dpi: Pixels of an inch.

    Returns:
        The content of the file.

    Example:
        >>> from nescio.plots import panel, png
        >>> figure, axes = panel()
        >>> png(figure)[1:4]
        b'PNG'
    """
    file = BytesIO()
    with style():
        figure.savefig(file, format="png", dpi=dpi, facecolor=page_colour(), metadata={"Software": None})
    return file.getvalue()
