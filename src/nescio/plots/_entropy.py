"""The distribution of the entropy of predicted probabilities, as in Figure 3 of the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nescio._checks import require_whole
from nescio.metrics.detection import entropy_cdf
from nescio.opinions.categorical import Prediction
from nescio.plots._layout import draw_band, drawing
from nescio.plots._style import line_look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 201


class EntropyCDFDisplay:
    """The share of inputs whose entropy is at most so much; the further to the bottom right, the more doubt.

    Args:
        entropy: Points (P,) in nats.
        share: The share of inputs with at most this entropy, (P,), 0 to 1.
        num_classes: K, which makes the greatest entropy ln K.
        band: Lower and upper ends of an interval of the share, (P,) each. Default: none.
        name: Its name in a legend.

    Attributes:
        ax_: The axes that it was drawn on.
        figure_: Their figure.
        line_: The line.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.plots import EntropyCDFDisplay, panel
        >>> figure, axes = panel()
        >>> letters = Opinion(torch.tensor([[9.0, 0.0], [0.0, 0.0]]))
        >>> display = EntropyCDFDisplay.from_predictions(letters, name="EDL", ax=axes)
        >>> display.share[[0, 100, -1]]
        array([0. , 0.5, 1. ])
    """

    def __init__(
        self,
        entropy: Any,
        share: Any,
        *,
        num_classes: int,
        band: tuple[Any, Any] | None = None,
        name: str | None = None,
    ) -> None:
        self.entropy = np.asarray(entropy, dtype=float)
        self.share = np.asarray(share, dtype=float)
        require_whole("num_classes", num_classes, 2)
        self.num_classes = num_classes
        self.band = band
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        prediction: Prediction,
        *,
        name: str | None = None,
        normalized: bool = False,
        ax: Axes | None = None,
        line_kw: Mapping[str, Any] | None = None,
    ) -> EntropyCDFDisplay:
        """Draw the entropies of predictions.

        Args:
            prediction: Prediction of inputs (...).
            name: Its name in a legend.
            normalized: Whether the entropy is shown as a part of its greatest value, not in nats.
            ax: The axes to draw on. Default: those of a new figure.
            line_kw: What matplotlib's `plot` takes for the line.

        Returns:
            The display.

        Raises:
            InputError: If it is no prediction, or holds no sample.
            MissingExtraError: If matplotlib is not installed.
        """
        curve = entropy_cdf(prediction, points=POINTS)
        made = cls(curve.entropy.numpy(), curve.share.numpy(), num_classes=prediction.num_classes, name=name)
        return made.plot(ax, normalized=normalized, line_kw=line_kw)

    def plot(
        self, ax: Axes | None = None, *, normalized: bool = False, line_kw: Mapping[str, Any] | None = None
    ) -> EntropyCDFDisplay:
        """Draw it.

        Args:
            ax: The axes to draw on. Default: those of a new figure.
            normalized: Whether the entropy is shown as a part of its greatest value, not in nats.
            line_kw: What matplotlib's `plot` takes for the line.

        Returns:
            The display, with `ax_`, `figure_` and `line_`.

        Raises:
            MissingExtraError: If matplotlib is not installed.
        """
        most = math.log(self.num_classes)
        at = self.entropy
        label = f"entropy, 0 to ln {self.num_classes}"
        if normalized:
            at = at / most
            most = 1.0
            label = "entropy (0: one class, 1: all classes alike)"
        with drawing(ax, "How much doubt there is") as axes:
            self.line_ = draw_band(axes, at, self.share, self.band, line_look(axes, line_kw, self.name))
            axes.set(xlim=(0, most), ylim=(0, 1.02), xlabel=label, ylabel="share up to this entropy")
        self.ax_ = axes
        self.figure_ = axes.figure
        return self
