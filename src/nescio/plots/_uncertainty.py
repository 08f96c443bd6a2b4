"""How uncertain predictions of known and of out-of-distribution inputs are, as histograms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nescio.errors import InputError
from nescio.metrics._inputs import flat, require_probabilities
from nescio.opinions.categorical import Prediction
from nescio.plots._layout import drawing
from nescio.plots._style import DASHES, LINE_COLOURS, colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 25


class UncertaintyDisplay:
    """Histograms of the uncertainty, one for each group of inputs, on one scale from 0 to 1.

    Args:
        uncertainty: The uncertainties (N,) of each group, by its name; up to six groups.

    Attributes:
        ax_: The axes that it was drawn on.
        figure_: Their figure.
        stairs_: The outline of each group's histogram, by its name.

    Raises:
        InputError: If there is no group, or more than six, or one without inputs.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.plots import UncertaintyDisplay, panel
        >>> figure, axes = panel()
        >>> known = Opinion(torch.tensor([[9.0, 0.0], [0.0, 3.0]]))
        >>> other = Opinion(torch.zeros(4, 2))
        >>> display = UncertaintyDisplay.from_predictions({"digits": known, "letters": other}, ax=axes)
        >>> list(display.stairs_)
        ['digits', 'letters']
    """

    def __init__(self, uncertainty: Mapping[str, Any]) -> None:
        if not 0 < len(uncertainty) <= len(LINE_COLOURS):
            raise InputError(f"uncertainty must have 1 to {len(LINE_COLOURS)} groups, got {len(uncertainty)}")
        self.uncertainty = {}
        for name, values in uncertainty.items():
            found = np.asarray(values, dtype=float).reshape(-1)
            if len(found) == 0:
                raise InputError(f"each group must have one input or more, got none of {name!r}")
            self.uncertainty[name] = found.clip(0, 1)

    @classmethod
    def from_predictions(
        cls, predictions: Mapping[str, Prediction], *, ax: Axes | None = None
    ) -> UncertaintyDisplay:
        """Draw predictions of several groups of inputs.

        Args:
            predictions: The prediction of each group, by its name; up to six groups.
            ax: The axes to draw on. Default: those of a new figure.

        Returns:
            The display.

        Raises:
            InputError: If one is no prediction or holds no sample, or there are too many.
            MissingExtraError: If matplotlib is not installed.
        """
        found = {}
        for name, prediction in predictions.items():
            require_probabilities(prediction, f"predictions[{name!r}]")
            found[name] = flat(prediction.uncertainty).double().numpy()
        return cls(found).plot(ax)

    def plot(self, ax: Axes | None = None) -> UncertaintyDisplay:
        """Draw it.

        Args:
            ax: The axes to draw on. Default: those of a new figure.

        Returns:
            The display, with `ax_`, `figure_` and `stairs_`.

        Raises:
            MissingExtraError: If matplotlib is not installed.
        """
        edges = np.linspace(0, 1, BINS + 1)
        self.stairs_: dict[str, Any] = {}
        rows = (len(self.uncertainty) + 1) // 2
        with drawing(ax, "How uncertain is it of each?", legend_rows=rows) as axes:
            for place, (name, values) in enumerate(self.uncertainty.items()):
                look: Any = {"color": colour(LINE_COLOURS[place])}
                share = 100 * np.histogram(values, edges)[0] / len(values)
                outline = axes.stairs(share, edges, linestyle=DASHES[place], linewidth=2, label=name, **look)
                axes.stairs(share, edges, fill=True, alpha=0.15, **look)
                self.stairs_[name] = outline
            axes.set(xlabel="uncertainty", ylabel="inputs, %", xlim=(0, 1))
            axes.set_ylim(bottom=0)
        self.ax_ = axes
        self.figure_ = axes.figure
        return self
