"""Belief bars: how much is believed of each class, and how much is "I do not know"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nescio._checks import describe, require_whole
from nescio.errors import InputError
from nescio.opinions.opinion import Opinion
from nescio.plots._layout import RIGHT, WIDTH, drawing
from nescio.plots._names import CHARACTER, UNKNOWN, class_names, short_name
from nescio.plots._style import LINE_COLOURS, colour, page_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HATCHES = ("", "//", "..", "\\\\", "xx", "--")  # bars are told apart in grey too
BAR = 0.8  # of the room of a class


class BeliefDisplay:
    """Bars of the belief in each class, and below them that of the uncertainty: together they are 1.

    Args:
        belief: The beliefs (N, K) of up to six opinions.
        uncertainty: Their uncertainties (N,).
        classes: The names of the K classes. Default: their numbers.
        names: The names of the N opinions, for a legend. Default: their numbers, where there are several.

    Attributes:
        ax_: The axes that it was drawn on.
        figure_: Their figure.
        bars_: The bars of each opinion.

    Raises:
        InputError: If the shapes do not fit, or there is no opinion or more than six.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.plots import BeliefDisplay, panel
        >>> figure, axes = panel()
        >>> opinion = Opinion(torch.tensor([8.0, 0.0, 0.0]))
        >>> display = BeliefDisplay.from_opinions(opinion, classes=("cat", "dog", "fox"), ax=axes)
        >>> [text.get_text() for text in display.ax_.get_yticklabels()]
        ['cat', 'dog', 'fox', 'I do not know']
    """

    def __init__(
        self,
        belief: Any,
        uncertainty: Any,
        *,
        classes: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self.belief = np.atleast_2d(np.asarray(belief, dtype=float))
        self.uncertainty = np.atleast_1d(np.asarray(uncertainty, dtype=float))
        count = len(self.belief)
        is_batch = self.belief.ndim == 2 and self.uncertainty.shape == (count,)
        if not is_batch or not 1 <= count <= len(LINE_COLOURS):
            expected = f"belief (N, K) and uncertainty (N,) of 1 to {len(LINE_COLOURS)} opinions"
            raise InputError(f"{expected} are needed, got {self.belief.shape} and {self.uncertainty.shape}")
        self.classes = class_names(classes, self.belief.shape[1])
        if names is None and count > 1:
            names = [str(place) for place in range(count)]
        if names is not None and len(names) != count:
            raise InputError(f"names must be those of {count} opinions, got {len(names)}")
        self.names = names

    @classmethod
    def from_opinions(
        cls,
        opinions: Opinion,
        *,
        classes: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
        most_classes: int = 12,
        ax: Axes | None = None,
    ) -> BeliefDisplay:
        """Draw one opinion, or up to six beside each other.

        Args:
            opinions: Opinions (K,) or (N, K).
            classes: The names of the K classes. Default: their numbers.
            names: The names of the opinions, for a legend.
            most_classes: The most classes that are drawn: those with the strongest belief.
            ax: The axes to draw on. Default: those of a new figure.

        Returns:
            The display.

        Raises:
            InputError: If these are no opinions, or the names do not fit.
            MissingExtraError: If matplotlib is not installed.
        """
        if not isinstance(opinions, Opinion):
            raise InputError(f"opinions must be an Opinion, got {describe(opinions)}")
        belief = opinions.belief.detach().cpu().numpy()
        uncertainty = opinions.uncertainty.detach().cpu().numpy()
        made = cls(belief, uncertainty, classes=classes, names=names)
        return made.plot(ax, most_classes=most_classes)

    def plot(self, ax: Axes | None = None, *, most_classes: int = 12) -> BeliefDisplay:
        """Draw it.

        Args:
            ax: The axes to draw on. Default: those of a new figure.
            most_classes: The most classes that are drawn: those with the strongest belief.

        Returns:
            The display, with `ax_`, `figure_` and `bars_`.

        Raises:
            InputError: If most_classes is no whole number from 1 on.
            MissingExtraError: If matplotlib is not installed.
        """
        require_whole("most_classes", most_classes, 1)
        strongest = np.argsort(-self.belief.max(axis=0), kind="stable")[:most_classes]
        shown = np.sort(strongest)
        rows = [short_name(self.classes[place]) for place in shown]
        rows.append(UNKNOWN)
        count = len(self.belief)
        with drawing(ax, "What is believed", legend_rows=(count + 1) // 2) as axes:
            height = BAR / count
            self.bars_: list[Any] = []
            for place in range(count):
                values = np.append(self.belief[place, shown], self.uncertainty[place])
                middles = np.arange(len(rows)) - BAR / 2 + height * (place + 0.5)
                self.bars_.append(self._draw_bars(axes, middles, values, height, place))
            axes.set_yticks(range(len(rows)), rows, parse_math=False)
            axes.set(ylim=(len(rows) - 0.5, -0.5), xlim=(0, 1), xlabel="belief, 0 to 1")
            axes.grid(False, axis="y")
            if ax is None:
                _make_room_for_names(axes, rows)
        self.ax_ = axes
        self.figure_ = axes.figure
        return self

    def _draw_bars(self, axes: Axes, middles: Any, values: Any, height: float, place: int) -> Any:
        fill = colour(LINE_COLOURS[place])
        label = None if self.names is None else self.names[place]
        bars = axes.barh(
            middles, values, height, color=fill, edgecolor=fill, hatch=HATCHES[place], alpha=0.85, label=label
        )
        if len(self.belief) == 1:
            # Doubt is of another kind than belief, and looks so.
            bars[-1].set(color=colour("muted"))
            for middle, value in zip(middles, values, strict=True):
                is_long = value > 0.88
                x = value - 0.012 if is_long else value + 0.012
                side = "right" if is_long else "left"
                ink = page_colour() if is_long else colour("ink")
                axes.text(x, middle, f"{value:.2f}", va="center_baseline", ha=side, color=ink, size=10)
        return bars


def _make_room_for_names(axes: Axes, names: Sequence[str]) -> None:
    """Move the left edge of the axes of a new figure so far that the names fit."""
    left = 0.2 + 1.2 * CHARACTER * max(len(name) for name in names)
    place = axes.get_position()
    axes.set_position((left / WIDTH, place.y0, 1 - (left + RIGHT) / WIDTH, place.height))
