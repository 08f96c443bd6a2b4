"""Reliability: whether answers are right as often as their probability says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from nescio.metrics.calibration import Reliability, reliability
from nescio.metrics.intervals import wilson_interval
from nescio.opinions.categorical import Prediction
from nescio.plots._layout import BELOW, box, drawing
from nescio.plots._style import LINE_COLOURS, MARKERS, colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 10
STRIP = 0.55  # inches of the bars below
STRIP_GAP = 0.22
RANGE = (0, 1.02)  # a point at 1 is seen whole
IDEAL = "as it should be"


class ReliabilityDisplay:
    """The share of right answers by their probability, with 95% intervals; below, how many answers there are.

    Args:
        bins: Mean probability, share of right answers and number of inputs of each bin.
        name: Its name in a legend. Default: "this model, with 95% intervals".

    Attributes:
        ax_: The axes that it was drawn on.
        figure_: Their figure.
        points_: The points with their intervals.
        counts_ax_: The axes of the bars; None where there are none.

    Example:
        >>> import torch
        >>> from nescio import Categorical
        >>> from nescio.plots import ReliabilityDisplay, panel
        >>> figure, axes = panel()
        >>> prediction = Categorical(torch.tensor([[0.95, 0.05], [0.25, 0.75]]))
        >>> display = ReliabilityDisplay.from_predictions(prediction, torch.tensor([0, 0]), ax=axes)
        >>> display.bins.count.tolist()
        [0, 0, 0, 0, 0, 0, 0, 1, 0, 1]
    """

    def __init__(self, bins: Reliability, *, name: str | None = None) -> None:
        self.bins = bins
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        prediction: Prediction,
        labels: Tensor,
        *,
        bins: int = BINS,
        name: str | None = None,
        ax: Axes | None = None,
        counts_ax: Axes | None = None,
        point_kw: Mapping[str, Any] | None = None,
    ) -> ReliabilityDisplay:
        """Draw predictions of labelled inputs.

        Args:
            prediction: Prediction of inputs (...).
            labels: Their true classes (...), whole numbers.
            bins: The number of bins of equal width.
            name: Its name in a legend.
            ax: The axes to draw on. Default: those of a new figure, with bars below.
            counts_ax: The axes for the bars, where `ax` is given. Default: no bars.
            point_kw: What matplotlib's `errorbar` takes for the points.

        Returns:
            The display.

        Raises:
            InputError: If prediction and labels do not fit, or bins is no whole number from 1 on.
            MissingExtraError: If matplotlib is not installed.
        """
        made = cls(reliability(prediction, labels, bins), name=name)
        return made.plot(ax, counts_ax=counts_ax, point_kw=point_kw)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        counts_ax: Axes | None = None,
        point_kw: Mapping[str, Any] | None = None,
    ) -> ReliabilityDisplay:
        """Draw it.

        Args:
            ax: The axes to draw on. Default: those of a new figure, with bars below.
            counts_ax: The axes for the bars, where `ax` is given. Default: no bars.
            point_kw: What matplotlib's `errorbar` takes for the points.

        Returns:
            The display, with `ax_`, `figure_`, `points_` and `counts_ax_`.

        Raises:
            MissingExtraError: If matplotlib is not installed.
        """
        title = "Is it as right as it says?"
        with drawing(ax, title, legend_rows=2, columns=1, gap=STRIP + STRIP_GAP) as axes:
            if ax is None:
                figure: Any = axes.figure
                counts_ax = figure.add_axes(box(figure.get_figheight(), BELOW, STRIP))
            place = self._draw_ideal(axes)
            self._draw_points(axes, place, point_kw)
            axes.set(xlim=RANGE, ylim=(0, 103), ylabel="right answers, %")
            if counts_ax is None:
                axes.set_xlabel("probability of the answer")
            else:
                axes.tick_params(labelbottom=False)
                self._draw_counts(counts_ax)
        self.ax_ = axes
        self.figure_ = axes.figure
        self.counts_ax_ = counts_ax
        return self

    def _draw_ideal(self, axes: Axes) -> int:
        """The line of ideal answers, once on each axes; gives how many displays are on them already."""
        for line in axes.lines:
            if line.get_label() == IDEAL:
                return len(axes.containers)
        axes.plot([0, 1], [0, 100], color=colour("muted"), linestyle="--", linewidth=1.4, label=IDEAL)
        return 0

    def _draw_points(self, axes: Axes, place: int, point_kw: Mapping[str, Any] | None) -> None:
        confidence = []
        share = []
        below = []
        above = []
        for bin_place in range(len(self.bins.count)):
            number = int(self.bins.count[bin_place])
            if number == 0:
                continue
            right = float(self.bins.accuracy[bin_place])
            low, high = wilson_interval(right, number)
            confidence.append(float(self.bins.confidence[bin_place]))
            share.append(100 * right)
            below.append(100 * max(right - low, 0))
            above.append(100 * max(high - right, 0))
        look: dict[str, Any] = {
            "color": colour(LINE_COLOURS[place % len(LINE_COLOURS)]),
            "marker": MARKERS[place % len(MARKERS)],
            "label": self.name or "this model, with 95% intervals",
        }
        look |= dict(point_kw or {})
        # A line would lead through points that stand for one input or two.
        self.points_ = axes.errorbar(
            confidence, share, yerr=(below, above), linestyle="none", elinewidth=1.2, capsize=3, **look
        )

    def _draw_counts(self, strip: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        number = len(self.bins.count)
        middles = (np.arange(number) + 0.5) / number
        strip.bar(middles, self.bins.count.numpy(), width=0.9 / number, color=colour("sky"))
        strip.set(xlim=RANGE, xlabel="probability of the answer", ylabel="inputs")
        strip.yaxis.set_major_locator(MaxNLocator(2, integer=True))
