"""The style that all figures share: colours for light and dark, fonts, lines."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from nescio.errors import InputError, MissingExtraError

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
"""Colours by name: those of Okabe and Ito, told apart with any kind of colour vision, as on the page."""
DARK_PALETTE = {
    "blue": "#56b4e9",
    "vermillion": "#ff8a3d",
    "green": "#2fc79b",
    "purple": "#e39cc4",
    "orange": "#f0c04a",
    "sky": "#b5dcf5",
    "ink": "#e8ecf0",
    "muted": "#a3adb8",
    "grid": "#37404a",
}
"""The same colours, light enough for a dark page."""
PAGES = {False: "#ffffff", True: "#14181d"}  # behind the figure, by whether it is dark

# Lines of one figure differ by colour, dashes and marker: also in grey.
LINE_COLOURS = ("blue", "vermillion", "green", "purple", "orange", "sky")
DASHES = ("-", "--", "-.", ":", (0, (5, 1.2, 1, 1.2, 1, 1.2)), (0, (2, 1)))
MARKERS = "osD^vP"

_is_dark: ContextVar[bool] = ContextVar("_is_dark", default=False)


def colour(name: str) -> str:
    """A colour of the palette that is in force: light, or dark inside `style(dark=True)`.

    Args:
        name: A name of PALETTE.

    Returns:
        The colour as matplotlib takes it.

    Raises:
        InputError: If there is no such colour.

    Example:
        >>> from nescio.plots import colour
        >>> colour("blue")
        '#0072b2'
    """
    palette = DARK_PALETTE if _is_dark.get() else PALETTE
    if name not in palette:
        raise InputError(f"name must be one of {', '.join(palette)}, got {name!r}")
    return palette[name]


@contextmanager
def style(dark: bool | None = None) -> Iterator[None]:
    """Draw and save figures in the look of the project.

    A name in letters that the font does not have is drawn as boxes, without a warning for each.

    Args:
        dark: Whether the figures are for a dark page. Default: as in the `style` around this one, else light.

    Returns:
        A context, for `with`.

    Raises:
        MissingExtraError: If matplotlib is not installed.

    Example:
        >>> from nescio import plots
        >>> with plots.style(dark=True):
        ...     plots.colour("ink")
        '#e8ecf0'
    """
    matplotlib = require_matplotlib()
    before = _is_dark.set(_is_dark.get() if dark is None else dark)
    try:
        with matplotlib.rc_context(settings()), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from")
            warnings.filterwarnings("ignore", ".*does not support .* natively")
            yield
    finally:
        _is_dark.reset(before)


def settings() -> dict[str, Any]:
    """matplotlib's settings in the colours that are in force."""
    ink = colour("ink")
    muted = colour("muted")
    found: dict[str, Any] = {
        "font.size": 12,
        "axes.labelsize": 12,
        "axes.edgecolor": muted,
        "axes.labelcolor": ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": colour("grid"),
        "grid.linewidth": 0.8,
        "legend.frameon": False,
        "legend.fontsize": 11,
        "legend.labelcolor": ink,
        "lines.linewidth": 2.2,
        "lines.markersize": 5.5,
        "text.color": ink,
        "xtick.color": muted,
        "ytick.color": muted,
        "xtick.labelcolor": ink,
        "ytick.labelcolor": ink,
        "svg.fonttype": "none",
        "svg.hashsalt": "nescio",
    }
    for name in ("figure.facecolor", "axes.facecolor", "savefig.facecolor"):
        found[name] = page_colour()
    return found


def page_colour() -> str:
    """What lies behind a figure."""
    return PAGES[_is_dark.get()]


def line_look(axes: Any, line_kw: Mapping[str, Any] | None, name: str | None) -> dict[str, Any]:
    """How the next line of axes looks: a colour and dashes of its own, and what the caller wants otherwise.

    Args:
        axes: Axes that may have lines already.
        line_kw: What matplotlib's `plot` is to take instead.
        name: The line's name in a legend.
    """
    place = 0
    for line in axes.lines:
        if not str(line.get_label()).startswith("_"):
            place += 1
    look: dict[str, Any] = {
        "color": colour(LINE_COLOURS[place % len(LINE_COLOURS)]),
        "linestyle": DASHES[place % len(DASHES)],
    }
    if name is not None:
        look["label"] = name
    return look | dict(line_kw or {})


def require_matplotlib() -> Any:
    """The package, or an error that says what to install."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("demo", "matplotlib") from error
    return matplotlib
