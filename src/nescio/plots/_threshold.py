"""Accuracy and coverage against the uncertainty that is allowed, as in Figure 2 of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from nescio.errors import InputError
from nescio.metrics.selective import accuracy_against_threshold
from nescio.opinions.categorical import Prediction
from nescio.plots._layout import draw_band, drawing
from nescio.plots._style import line_look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = {"accuracy": "accuracy of these, %", "coverage": "answered, %"}
TITLES = {"accuracy": "Right answers among those kept", "coverage": "How many are kept"}


class ThresholdDisplay:
    """What is left of the inputs where the uncertainty is limited: their accuracy, or their share.

    Args:
        threshold: The most uncertainty that is allowed, (T,).
        values: What is drawn at each threshold, (T,), 0 to 1; NaN where no input is left.
        curve: What it is: "accuracy" of the inputs left, or "coverage", their share.
        band: Lower and upper ends of an interval of the values, (T,) each. Default: none.
        name: Its name in a legend.

    Attributes:
        ax_: The axes that it was drawn on.
        figure_: Their figure.
        line_: The line.

    Raises:
        InputError: If curve is neither.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.plots import ThresholdDisplay, panel
        >>> figure, axes = panel()
        >>> digits = Opinion(torch.tensor([[9.0, 0.0], [0.0, 1.0]]))
        >>> display = ThresholdDisplay.from_predictions(digits, torch.tensor([0, 0]), ax=axes)
        >>> float(display.values[-1])
        0.5
    """

    def __init__(
        self,
        threshold: Any,
        values: Any,
        *,
        curve: str = "accuracy",
        band: tuple[Any, Any] | None = None,
        name: str | None = None,
    ) -> None:
        if curve not in LABELS:
            raise InputError(f"curve must be accuracy or coverage, got {curve!r}")
        self.threshold = np.asarray(threshold, dtype=float)
        self.values = np.asarray(values, dtype=float)
        self.curve = curve
        self.band = band
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        prediction: Prediction,
        labels: Tensor | None = None,
        *,
        curve: str = "accuracy",
        name: str | None = None,
        ax: Axes | None = None,
        line_kw: Mapping[str, Any] | None = None,
    ) -> ThresholdDisplay:
        """Draw predictions of inputs.

        Args:
            prediction: Prediction of inputs (...).
            labels: Their true classes (...), whole numbers; for the coverage they are not needed.
            curve: "accuracy" of the inputs left, or "coverage", their share.
            name: Its name in a legend.
            ax: The axes to draw on. Default: those of a new figure.
            line_kw: What matplotlib's `plot` takes for the line.

        Returns:
            The display.

        Raises:
            InputError: If prediction and labels do not fit, or the accuracy is asked for without labels.
            MissingExtraError: If matplotlib is not installed.
        """
        if labels is None:
            if curve == "accuracy":
                raise InputError("labels must be given for the accuracy, got None")
            labels = prediction.labels  # of which the coverage does not depend
        found = accuracy_against_threshold(prediction, labels)
        values = found.coverage if curve == "coverage" else found.accuracy
        made = cls(found.threshold.numpy(), values.numpy(), curve=curve, name=name)
        return made.plot(ax, line_kw=line_kw)

    def plot(self, ax: Axes | None = None, *, line_kw: Mapping[str, Any] | None = None) -> ThresholdDisplay:
        """Draw it.

        Args:
            ax: The axes to draw on. Default: those of a new figure.
            line_kw: What matplotlib's `plot` takes for the line.

        Returns:
            The display, with `ax_`, `figure_` and `line_`.

        Raises:
            MissingExtraError: If matplotlib is not installed.
        """
        band = None
        if self.band is not None:
            band = (100 * np.asarray(self.band[0], dtype=float), 100 * np.asarray(self.band[1], dtype=float))
        with drawing(ax, TITLES[self.curve]) as axes:
            look = line_look(axes, line_kw, self.name)
            self.line_ = draw_band(axes, self.threshold, 100 * self.values, band, look)
            # What happens at 1 shall not hide on the edge.
            axes.set(xlim=(-0.03, 1.03), xlabel="uncertainty allowed", ylabel=LABELS[self.curve])
            axes.yaxis.set_major_formatter("{x:g}")
            if self.curve == "coverage":
                axes.set_ylim(-3, 103)
        self.ax_ = axes
        self.figure_ = axes.figure
        return self
