"""A turning input: what is said of it at each angle, as in Figure 1 of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from nescio.errors import InputError
from nescio.metrics._inputs import require_probabilities
from nescio.opinions.categorical import Prediction
from nescio.opinions.opinion import Opinion
from nescio.plots._layout import BELOW, LEFT, RIGHT, WIDTH, box, drawing
from nescio.plots._names import class_names
from nescio.plots._style import LINE_COLOURS, MARKERS, colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PEAK = 0.2  # a class is drawn when at some angle it is at least so probable
MOST_TILES = 10  # pictures below the angles
STRIP_GAP = 0.06  # inches


class RotationDisplay:
    """The probabilities of the classes as an input turns, for opinions the uncertainty too; the input below.

    Args:
        degrees: The angles (A,), evenly spaced.
        probabilities: The probabilities (A, K) at each angle.
        uncertainty: The uncertainty (A,) at each angle. Default: not drawn.
        images: The input at each angle, (A, H, W) in grey. Default: not drawn.
        classes: The names of the K classes. Default: their numbers.

    Attributes:
        ax_: The axes that it was drawn on.
        figure_: Their figure.
        lines_: The lines by the number of their class.
        strip_ax_: The axes of the pictures; None where there are none.

    Raises:
        InputError: If the shapes do not fit.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.plots import RotationDisplay, panel
        >>> figure, axes = panel()
        >>> turned = Opinion(torch.tensor([[9.0, 0.0, 0.0], [9.0, 2.0, 0.0], [0.0, 9.0, 0.0]]))
        >>> display = RotationDisplay.from_predictions(turned, [0, 45, 90], ax=axes)
        >>> list(display.lines_)
        [0, 1]
    """

    def __init__(
        self,
        degrees: Any,
        probabilities: Any,
        *,
        uncertainty: Any | None = None,
        images: Any | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        self.degrees = np.asarray(degrees)
        self.probabilities = np.asarray(probabilities)
        self.uncertainty = None if uncertainty is None else np.asarray(uncertainty)
        self.images = None if images is None else np.asarray(images)
        count = len(self.degrees)
        if count < 2 or self.probabilities.ndim != 2:
            raise InputError(
                f"degrees must be two angles or more and probabilities (A, K), got {self.degrees.shape} and "
                f"{self.probabilities.shape}"
            )
        for name in ("probabilities", "uncertainty", "images"):
            value = getattr(self, name)
            if value is not None and len(value) != count:
                raise InputError(f"{name} must be given for each of {count} angles, got {len(value)}")
        self.classes = class_names(classes, self.probabilities.shape[1])

    @classmethod
    def from_predictions(
        cls,
        prediction: Prediction,
        degrees: Any,
        *,
        images: Tensor | None = None,
        classes: Sequence[str] | None = None,
        truth: int | None = None,
        ax: Axes | None = None,
        strip_ax: Axes | None = None,
    ) -> RotationDisplay:
        """Draw what is said of an input turned by each angle.

        Args:
            prediction: Prediction of A inputs. The uncertainty is drawn where it is an Opinion's.
            degrees: The angles (A,).
            images: The inputs (A, 1, H, W) or (A, H, W) in grey. Default: not drawn.
            classes: The names of the K classes. Default: their numbers.
            truth: The number of the true class, which is drawn first in any case.
            ax: The axes to draw on. Default: those of a new figure, with the pictures below.
            strip_ax: The axes for the pictures, where `ax` is given. Default: no pictures.

        Returns:
            The display.

        Raises:
            InputError: If these do not fit.
            MissingExtraError: If matplotlib is not installed.
        """
        probabilities = require_probabilities(prediction).numpy()
        uncertainty = None
        if isinstance(prediction, Opinion):
            uncertainty = prediction.uncertainty.detach().cpu().numpy()
        shown = None
        if images is not None:
            shown = images.detach().cpu().numpy()
            shown = shown.reshape(len(shown), *shown.shape[-2:])
        made = cls(degrees, probabilities, uncertainty=uncertainty, images=shown, classes=classes)
        drawn = probable_classes([made.probabilities], truth)
        return made.plot(ax, strip_ax=strip_ax, drawn=drawn)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        strip_ax: Axes | None = None,
        drawn: Sequence[int] | None = None,
        interpolation: str | None = None,
    ) -> RotationDisplay:
        """Draw it.

        Args:
            ax: The axes to draw on. Default: those of a new figure, with the pictures below.
            strip_ax: The axes for the pictures, where `ax` is given. Default: no pictures.
            drawn: The numbers of the classes that are drawn, in this order, no more than six. Default: those
                that are at least 20% probable at some angle.
            interpolation: How matplotlib is to scale the pictures. Default: as it is set.

        Returns:
            The display, with `ax_`, `figure_`, `lines_` and `strip_ax_`.

        Raises:
            InputError: If more classes are to be drawn than there are colours, or one that there is not.
            MissingExtraError: If matplotlib is not installed.
        """
        if drawn is None:
            drawn = probable_classes([self.probabilities])
        if len(drawn) > len(LINE_COLOURS) or not set(drawn) <= set(range(len(self.classes))):
            expected = f"{len(LINE_COLOURS)} or fewer of the classes 0 to {len(self.classes) - 1}"
            raise InputError(f"drawn must be {expected}, got {list(drawn)}")
        tile = (WIDTH - LEFT - RIGHT) / self._num_tiles
        gap = 0.0 if self.images is None else tile + STRIP_GAP
        rows = (len(drawn) + 4) // 4
        with drawing(ax, "What is said of it as it turns", legend_rows=rows, columns=4, gap=gap) as axes:
            if ax is None and self.images is not None:
                figure: Any = axes.figure
                strip_ax = figure.add_axes(box(figure.get_figheight(), BELOW, tile))
            self._draw_lines(axes, drawn)
            if strip_ax is None:
                axes.set_xlabel("turned by, degrees")
            else:
                axes.tick_params(labelbottom=False)
                self._draw_strip(strip_ax, interpolation)
        self.ax_ = axes
        self.figure_ = axes.figure
        self.strip_ax_ = strip_ax
        return self

    @property
    def _every(self) -> int:
        """Every so many-th picture is drawn."""
        return -(-len(self.degrees) // MOST_TILES)

    @property
    def _num_tiles(self) -> int:
        return len(self.degrees[:: self._every])

    @property
    def _ends(self) -> tuple[float, float]:
        """The ends of the axes: half a picture beyond the first and the last angle that has one."""
        shown = self.degrees[:: self._every]
        half = (shown[1] - shown[0]) / 2
        return float(shown[0] - half), float(shown[-1] + half)

    def _draw_lines(self, axes: Axes, drawn: Sequence[int]) -> None:
        self.lines_: dict[int, Any] = {}
        for place, label in enumerate(drawn):
            (self.lines_[label],) = axes.plot(
                self.degrees,
                self.probabilities[:, label],
                label=self.classes[label],
                color=colour(LINE_COLOURS[place]),
                marker=MARKERS[place],
            )
        if self.uncertainty is not None:
            ink = colour("ink")
            axes.plot(self.degrees, self.uncertainty, color=ink, linestyle="--", label="uncertainty")
        axes.set(xlim=self._ends, ylim=(-0.03, 1.03), ylabel="probability")
        axes.set_xticks(self.degrees[:: self._every])

    def _draw_strip(self, strip: Axes, interpolation: str | None) -> None:
        """Pictures in a row, each below its angle."""
        assert self.images is not None
        row = np.concatenate(list(self.images[:: self._every]), axis=1)
        extent = (*self._ends, 0, 1)
        strip.imshow(row, cmap="gray", interpolation=interpolation, aspect="auto", extent=extent)
        strip.set(xlim=self._ends, yticks=[], xlabel="turned by, degrees")
        strip.set_xticks(self.degrees[:: self._every])
        strip.grid(False)


def probable_classes(all_probabilities: Sequence[Any], truth: int | None = None) -> list[int]:
    """The classes worth drawing: the true one, then what some model finds probable at some angle.

    Args:
        all_probabilities: The probabilities (A, K) of each model.
        truth: The number of the true class, which comes first.

    Returns:
        No more classes than there are colours.
    """
    peaks = np.max([np.max(probabilities, axis=0) for probabilities in all_probabilities], axis=0)
    if truth is not None:
        peaks[truth] = 2.0
    probable = []
    for place in np.argsort(-peaks, kind="stable"):
        if peaks[place] >= PEAK:
            probable.append(int(place))
    return probable[: len(LINE_COLOURS)]
