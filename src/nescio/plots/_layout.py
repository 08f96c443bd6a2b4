"""Figures and their axes: panels of one size, headings, legends, lines with bands."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nescio.plots._style import colour, require_matplotlib, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 5.2  # inches: at a telephone's 345 pixels the font is still above 10
LEFT = 0.75
RIGHT = 0.16
BELOW = 0.62
TALL = 2.6
TITLE = 0.38
LEGEND_ROW = 0.24

PANEL = (4.3, 3.1)  # inches; two beside each other fill a printed page
SHARED_LEGEND_ROW = 0.27
BAND = 0.16  # how dense a band is


def panel(legend_rows: int = 1, gap: float = 0.0, *, in_pyplot: bool = False) -> tuple[Figure, Axes]:
    """Axes of the same size in every figure, with room for a title, a legend and a gap below.

    Args:
        legend_rows: Lines of the legend.
        gap: Room below the axes in inches, for what else is drawn there.
        in_pyplot: Whether pyplot knows the figure, so that a notebook shows it and `pyplot.show` opens it.

    Returns:
        The figure, and its axes.

    Raises:
        MissingExtraError: If matplotlib is not installed.

    Example:
        >>> from nescio.plots import panel
        >>> figure, axes = panel()
        >>> float(figure.get_figwidth())
        5.2
    """
    height = BELOW + gap + TALL + LEGEND_ROW * legend_rows + TITLE
    figure = new_figure(WIDTH, height, in_pyplot)
    return figure, figure.add_axes(box(height, BELOW + gap, TALL))


def new_figure(width: float, height: float, in_pyplot: bool) -> Figure:
    """An empty figure of this size in inches."""
    require_matplotlib()
    if in_pyplot:
        from matplotlib import pyplot

        return pyplot.figure(figsize=(width, height))
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def box(height: float, below: float, tall: float) -> tuple[float, float, float, float]:
    """Left, bottom, width and height of axes as parts of a figure.

    Args:
        height: The height of the figure in inches.
        below: Where the axes begin in it, in inches.
        tall: The height of the axes in inches.

    Returns:
        What `Figure.add_axes` takes.

    Example:
        >>> from nescio.plots import box
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
        >>> from nescio.plots import add_heading, panel
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


def panels(
    columns: int, rows: int = 1, height: float = PANEL[1], width: float = PANEL[0]
) -> tuple[Figure, Any]:
    """A figure with a grid of axes, for several displays beside each other.

    Args:
        columns: Axes beside each other.
        rows: Axes below each other.
        height: The height of each in inches.
        width: The width of each in inches.

    Returns:
        The figure, and its axes as an array (rows, columns).

    Raises:
        MissingExtraError: If matplotlib is not installed.

    Example:
        >>> from nescio.plots import panels
        >>> figure, grid = panels(2)
        >>> grid.shape
        (1, 2)
    """
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def add_legend(figure: Figure, columns: int = 4) -> None:
    """Put one legend for all axes of a figure above them, in room of its own; each name once.

    Args:
        figure: A figure made by `panels`; it grows by the height of the legend.
        columns: Columns of the legend.

    Example:
        >>> from nescio.plots import add_legend, panels
        >>> figure, grid = panels(2)
        >>> lines = [axes.plot([0, 1], label="one") for axes in grid[0]]
        >>> add_legend(figure)
        >>> len(figure.legends[0].get_texts())
        1
    """
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    if not found:
        return
    room = SHARED_LEGEND_ROW * math.ceil(len(found) / columns) + 0.1
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


def draw_band(
    axes: Axes,
    at: Any,
    middle: Any,
    band: tuple[Any, Any] | None = None,
    line_kw: Mapping[str, Any] | None = None,
) -> Any:
    """A line, and around it a band where its lower and upper end are known.

    Args:
        axes: Where it is drawn.
        at: The points, (P,).
        middle: The values there, (P,); NaN where there is none.
        band: The lower and the upper ends, (P,) each; NaN where there are none. Default: no band.
        line_kw: What matplotlib's `plot` takes; the band has the line's colour.

    Returns:
        The line that matplotlib drew.

    Example:
        >>> from nescio.plots import draw_band, panel
        >>> figure, axes = panel()
        >>> line = draw_band(axes, [0, 1], [0.5, 0.6], ([0.4, 0.5], [0.6, 0.7]))
        >>> len(axes.collections)
        1
    """
    look = dict(line_kw or {})
    look.setdefault("color", colour("blue"))
    (line,) = axes.plot(at, middle, **look)
    if band is not None:
        axes.fill_between(at, *band, color=look["color"], alpha=BAND, linewidth=0)
    return line


@contextmanager
def drawing(
    ax: Axes | None, title: str, legend_rows: int = 1, columns: int = 2, gap: float = 0.0
) -> Iterator[Axes]:
    """The axes that a display is drawn on: those given as they are, or those of a new figure in our look.

    Args:
        ax: Axes of the caller, or None.
        title: Above a new figure.
        legend_rows: Lines of the legend of a new figure.
        columns: Columns of its legend.
        gap: Room below the axes of a new figure in inches.
    """
    require_matplotlib()
    if ax is not None:
        yield ax
        return
    with style():
        figure, axes = panel(legend_rows, gap, in_pyplot=True)
        yield axes
        add_heading(figure, axes, title, columns)
