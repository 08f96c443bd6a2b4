"""The confusion matrix with "I do not know" as a column of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from nescio.errors import InputError
from nescio.metrics._inputs import require_labels
from nescio.metrics.classes import confusion_matrix
from nescio.opinions.categorical import Prediction
from nescio.plots._layout import new_figure
from nescio.plots._names import CHARACTER, UNKNOWN, class_names, short_name
from nescio.plots._style import colour, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CELL = 0.42  # inches of a cell, where there are few
SMALL_CELL = 0.3
FEW_CLASSES = 12
UPRIGHT_NAME = 3  # characters that have room beside each other
STRONGEST = 0.55  # opacity of a cell: the number on it is still read on a light and on a dark page
FAINTEST = 0.08


class ConfusionDisplay:
    """Answers by true class and class answered; the shade of a cell is its share of the true class.

    Args:
        counts: How many inputs of the row's class were answered with the column's, (K, K).
        unknown: How many inputs of each class were not answered, (K,), a column of its own. Default: none.
        classes: The names of the K classes. Default: their numbers.

    Attributes:
        ax_: The axes that it was drawn on.
        figure_: Their figure.
        texts_: The numbers, by row and column.

    Raises:
        InputError: If the shapes do not fit.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.plots import ConfusionDisplay, panel
        >>> figure, axes = panel()
        >>> prediction = Opinion(torch.tensor([[9.0, 0.0], [0.0, 9.0], [0.0, 0.0]]))
        >>> display = ConfusionDisplay.from_predictions(prediction, torch.tensor([0, 0, 1]), ax=axes)
        >>> display.counts.tolist(), display.unknown.tolist()
        ([[1, 1], [0, 0]], [0, 1])
    """

    def __init__(
        self, counts: Any, *, unknown: Any | None = None, classes: Sequence[str] | None = None
    ) -> None:
        self.counts = np.asarray(counts)
        self.unknown = None if unknown is None else np.asarray(unknown)
        if self.counts.ndim != 2 or self.counts.shape[0] != self.counts.shape[1]:
            raise InputError(f"counts must be a square matrix (K, K), got shape {self.counts.shape}")
        if self.unknown is not None and self.unknown.shape != self.counts.shape[:1]:
            raise InputError(f"unknown must be a number for each class, got shape {self.unknown.shape}")
        self.classes = class_names(classes, len(self.counts))

    @classmethod
    def from_predictions(
        cls,
        prediction: Prediction,
        labels: Tensor,
        *,
        accepted: Tensor | None = None,
        classes: Sequence[str] | None = None,
        ax: Axes | None = None,
    ) -> ConfusionDisplay:
        """Draw predictions of labelled inputs.

        Args:
            prediction: Prediction of inputs (...). Vacuous ones (u = 1) are no answers.
            labels: Their true classes (...), whole numbers.
            accepted: Whether the model stands by each answer, bool (...), as `TrainedModel.accepts` gives
                it; the others are "I do not know". Default: it stands by all that are not vacuous.
            classes: The names of the K classes. Default: their numbers.
            ax: The axes to draw on. Default: those of a new figure.

        Returns:
            The display. It has the column "I do not know" where accepted is given, or there are vacuous ones.

        Raises:
            InputError: If these do not fit.
            MissingExtraError: If matplotlib is not installed.
        """
        counts = confusion_matrix(prediction, labels, accepted)
        totals = require_labels(prediction, labels).bincount(minlength=prediction.num_classes)
        unknown: Tensor | None = totals - counts.sum(1)
        if accepted is None and int(counts.sum()) == labels.numel():
            unknown = None
        return cls(counts, unknown=unknown, classes=classes).plot(ax)

    def plot(self, ax: Axes | None = None) -> ConfusionDisplay:
        """Draw it.

        Args:
            ax: The axes to draw on. Default: those of a new figure, as large as the classes need.

        Returns:
            The display, with `ax_`, `figure_` and `texts_`.

        Raises:
            MissingExtraError: If matplotlib is not installed.
        """
        if ax is None:
            with style():
                _, axes = self.panel(in_pyplot=True)
                self._draw(axes)
        else:
            axes = ax
            self._draw(axes)
        self.ax_ = axes
        self.figure_ = axes.figure
        return self

    def panel(self, in_pyplot: bool = False) -> tuple[Figure, Axes]:
        """A figure as large as this matrix and its names need, and its axes.

        Args:
            in_pyplot: Whether pyplot knows the figure, so that a notebook shows it.

        Returns:
            The figure, and its axes, on which nothing is drawn yet.

        Raises:
            MissingExtraError: If matplotlib is not installed.
        """
        cell = CELL if len(self.counts) <= FEW_CLASSES else SMALL_CELL
        longest = CHARACTER * max(len(name) for name in self._rows)
        deep = CHARACTER
        if self._rotation or self.unknown is not None:
            deep = CHARACTER * max(len(name) for name in self._columns)
        wide = len(self._columns) * cell
        tall = len(self._rows) * cell
        width = longest + 0.55 + wide + 0.12
        height = deep + 0.6 + tall + 0.12
        figure = new_figure(width, height, in_pyplot)
        place = ((longest + 0.55) / width, (deep + 0.6) / height, wide / width, tall / height)
        return figure, figure.add_axes(place)

    @property
    def _rows(self) -> list[str]:
        return [short_name(name) for name in self.classes]

    @property
    def _columns(self) -> list[str]:
        if self.unknown is None:
            return self._rows
        return [*self._rows, UNKNOWN]

    @property
    def _rotation(self) -> int:
        """The angle of the classes' names below the columns, in degrees."""
        return 0 if max(len(name) for name in self._rows) <= UPRIGHT_NAME else 90

    def _draw(self, axes: Axes) -> None:
        table = self.counts
        if self.unknown is not None:
            table = np.concatenate([self.counts, self.unknown[:, None]], axis=1)
        rows, columns = table.shape
        font = 10 if rows <= FEW_CLASSES else 8
        totals = np.maximum(table.sum(axis=1), 1)
        self.texts_: dict[tuple[int, int], Any] = {}
        for truth, answer in zip(*np.nonzero(table), strict=True):
            self._draw_cell(axes, int(truth), int(answer), int(table[truth, answer]), totals, font)
        places = np.arange(columns) + 0.5
        axes.set_xticks(places, self._columns, rotation=self._rotation, size=font, parse_math=False)
        axes.set_yticks(places[:rows], self._rows, size=font, parse_math=False)
        axes.set(xlim=(0, columns), ylim=(rows, 0), xlabel="answer", ylabel="truth")
        axes.tick_params(length=0)
        axes.grid(False)
        for place in range(1, rows):
            axes.axhline(place, color=colour("grid"), linewidth=0.6, zorder=0)
        for place in range(1, columns):
            axes.axvline(place, color=colour("grid"), linewidth=0.6, zorder=0)
        if self.unknown is not None:
            axes.get_xticklabels()[-1].set_rotation(90)
            axes.axvline(rows, color=colour("muted"), linewidth=1.4)

    def _draw_cell(self, axes: Axes, truth: int, answer: int, number: int, totals: Any, font: float) -> None:
        from matplotlib.patches import Rectangle

        name = "vermillion"
        if answer == truth:
            name = "blue"
        elif answer == len(self.counts):
            name = "muted"
        shade = FAINTEST + (STRONGEST - FAINTEST) * number / int(totals[truth])
        cell = Rectangle((answer, truth), 1, 1, facecolor=colour(name), alpha=shade, linewidth=0)
        axes.add_patch(cell)
        size = font if number < 1000 else font - 2
        self.texts_[truth, answer] = axes.text(
            answer + 0.5, truth + 0.5, str(number), ha="center", va="center_baseline", size=size
        )
