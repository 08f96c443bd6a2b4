"""The Dirichlet triangle: the density of class probabilities that an opinion on three classes stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nescio._checks import describe
from nescio.errors import InputError
from nescio.opinions.opinion import Opinion
from nescio.plots._layout import drawing
from nescio.plots._names import class_names, short_name
from nescio.plots._style import colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEIGHT = 3**0.5 / 2  # of a triangle with sides of length 1
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, HEIGHT]])
PIXELS = 300
UNIFORM = 2.0  # the density where nothing is known: 1 over the area of the simplex
HALF_SHADE = 4 * UNIFORM  # the density that is drawn half as dark as can be
DARKEST = 0.95


class DirichletDisplay:
    """The density of an opinion's Dirichlet over the triangle of three class probabilities.

    A corner is the certainty of one class, and the middle that all are alike. A density d is drawn with the
    opacity 0.95 d / (d + 8), so that displays can be compared: where nothing is known the triangle is evenly
    pale (d = 2), and the more evidence there is, the smaller and darker the spot. The mark is the mean.

    Args:
        alpha: The three parameters of the Dirichlet, (3,), above 0.
        uncertainty: The uncertainty of the opinion, written beside the mark. Default: not written.
        classes: The names of the three classes. Default: their numbers.

    Attributes:
        ax_: The axes that it was drawn on.
        figure_: Their figure.
        image_: The density.
        mark_: The mark at the mean.

    Raises:
        InputError: If alpha has another shape or is not above 0, or there are not three names.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.plots import DirichletDisplay, panel
        >>> figure, axes = panel()
        >>> display = DirichletDisplay.from_opinion(Opinion(torch.tensor([6.0, 1.0, 0.0])), ax=axes)
        >>> display.alpha
        array([7., 2., 1.])
    """

    def __init__(
        self, alpha: Any, *, uncertainty: float | None = None, classes: Sequence[str] | None = None
    ) -> None:
        self.alpha = np.asarray(alpha, dtype=float)
        if self.alpha.shape != (3,) or not (self.alpha > 0).all():
            raise InputError(f"alpha must be three numbers above 0, got {self.alpha.tolist()}")
        self.uncertainty = uncertainty
        self.classes = class_names(classes, 3)

    @classmethod
    def from_opinion(
        cls, opinion: Opinion, *, classes: Sequence[str] | None = None, ax: Axes | None = None
    ) -> DirichletDisplay:
        """Draw one opinion on three classes.

        Args:
            opinion: An opinion (3,).
            classes: The names of the three classes. Default: their numbers.
            ax: The axes to draw on. Default: those of a new figure.

        Returns:
            The display.

        Raises:
            InputError: If it is no single opinion on three classes.
            MissingExtraError: If matplotlib is not installed.
        """
        if not isinstance(opinion, Opinion) or tuple(opinion.evidence.shape) != (3,):
            raise InputError(f"opinion must be one Opinion on three classes, got {describe(opinion)}")
        alpha = opinion.alpha.detach().cpu().double().numpy()
        return cls(alpha, uncertainty=float(opinion.uncertainty), classes=classes).plot(ax)

    def density(self, probabilities: Any) -> Any:
        """The density at class probabilities (..., 3) that are above 0 and sum to 1, (...)."""
        from scipy.special import gammaln

        constant = gammaln(self.alpha.sum()) - gammaln(self.alpha).sum()
        return np.exp(constant + ((self.alpha - 1) * np.log(probabilities)).sum(axis=-1))

    def plot(self, ax: Axes | None = None) -> DirichletDisplay:
        """Draw it.

        Args:
            ax: The axes to draw on; their frame and ticks go. Default: those of a new figure.

        Returns:
            The display, with `ax_`, `figure_`, `image_` and `mark_`.

        Raises:
            MissingExtraError: If matplotlib is not installed.
        """
        with drawing(ax, "Which probabilities are meant", legend_rows=0) as axes:
            from matplotlib.colors import LinearSegmentedColormap, to_rgba
            from matplotlib.patches import Polygon

            red, green, blue, _ = to_rgba(colour("blue"))
            shades = LinearSegmentedColormap.from_list(
                "density", [(red, green, blue, 0.0), (red, green, blue, DARKEST)]
            )
            found = self._density_image()
            shade = found / (found + HALF_SHADE)
            self.image_ = axes.imshow(
                shade, cmap=shades, vmin=0, vmax=1, origin="lower", extent=(0, 1, 0, HEIGHT), zorder=1
            )
            edge = Polygon(CORNERS, fill=False, edgecolor=colour("muted"), linewidth=1.4, zorder=2)
            axes.add_patch(edge)
            self.image_.set_clip_path(edge)
            self._draw_mark(axes)
            self._name_corners(axes)
            axes.set(xlim=(-0.15, 1.15), ylim=(-0.13, HEIGHT + 0.11), aspect="equal")
            axes.set_axis_off()
            if ax is None:
                axes.set_position((0, 0, 1, 0.9))  # there are no ticks to leave room for
        self.ax_ = axes
        self.figure_ = axes.figure
        return self

    def _density_image(self) -> Any:
        """The density at the middle of each pixel (PIXELS, PIXELS); 0 outside the triangle."""
        middles = (np.arange(PIXELS) + 0.5) / PIXELS
        x, y = np.meshgrid(middles, middles * HEIGHT)
        third = y / HEIGHT
        second = x - third / 2
        points = np.stack([1 - second - third, second, third], axis=-1)
        inside = (points > 0).all(axis=-1)
        found = np.zeros(inside.shape)
        found[inside] = self.density(points[inside])
        return found

    def _draw_mark(self, axes: Axes) -> None:
        x, y = (self.alpha / self.alpha.sum()) @ CORNERS
        look: Any = {"markeredgecolor": colour("ink"), "markeredgewidth": 1.2, "zorder": 3}
        (self.mark_,) = axes.plot([x], [y], "o", color=colour("orange"), markersize=8, label="_mean", **look)
        if self.uncertainty is not None:
            # Beside the triangle, where it covers nothing.
            place = (1.0, 0.75 * HEIGHT)
            axes.text(*place, f"u = {self.uncertainty:.2f}", ha="right", va="center", size=11)

    def _name_corners(self, axes: Axes) -> None:
        names = [short_name(name) for name in self.classes]
        axes.text(0, -0.03, names[0], ha="center", va="top", size=11, parse_math=False)
        axes.text(1, -0.03, names[1], ha="center", va="top", size=11, parse_math=False)
        axes.text(0.5, HEIGHT + 0.025, names[2], ha="center", va="bottom", size=11, parse_math=False)
