"""Risk against coverage: what is gained by leaving the most doubtful inputs out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from nescio.metrics._inputs import flat, require_accepted
from nescio.metrics.calibration import right_answers
from nescio.metrics.selective import risk_coverage
from nescio.opinions.categorical import Prediction
from nescio.opinions.measures import MEASURES
from nescio.plots._layout import drawing
from nescio.plots._style import colour, line_look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST_TOP = 1.0  # percent


class RiskCoverageDisplay:
    """The share of wrong answers by the share of inputs that are answered, the surest first.

    Args:
        coverage: The share of inputs answered, (T,), 0 to 1.
        risk: The share of wrong answers among them, (T,), 0 to 1.
        working_point: Coverage and risk where the model stands by its answers. Default: none is marked.
        name: Its name in a legend.

    Attributes:
        ax_: The axes that it was drawn on.
        figure_: Their figure.
        line_: The line.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.plots import RiskCoverageDisplay, panel
        >>> figure, axes = panel()
        >>> prediction = Opinion(torch.tensor([[9.0, 0.0], [0.0, 1.0]]))
        >>> display = RiskCoverageDisplay.from_predictions(prediction, torch.tensor([0, 0]), ax=axes)
        >>> display.risk
        array([0. , 0.5])
    """

    def __init__(
        self,
        coverage: Any,
        risk: Any,
        *,
        working_point: tuple[float, float] | None = None,
        name: str | None = None,
    ) -> None:
        self.coverage = np.asarray(coverage, dtype=float)
        self.risk = np.asarray(risk, dtype=float)
        self.working_point = working_point
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        prediction: Prediction,
        labels: Tensor,
        *,
        measure: str = "uncertainty",
        accepted: Tensor | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        line_kw: Mapping[str, Any] | None = None,
    ) -> RiskCoverageDisplay:
        """Draw predictions of labelled inputs.

        Args:
            prediction: Prediction of inputs (...).
            labels: Their true classes (...), whole numbers.
            measure: The measure of doubt that orders the inputs, a name of `nescio.opinions.MEASURES`.
            accepted: Whether the model stands by each answer, bool (...); it is marked. Default: none.
            name: Its name in a legend.
            ax: The axes to draw on. Default: those of a new figure.
            line_kw: What matplotlib's `plot` takes for the line.

        Returns:
            The display.

        Raises:
            InputError: If these do not fit, or there is no such measure.
            MissingExtraError: If matplotlib is not installed.
        """
        right = right_answers(prediction, labels)
        doubt = flat(MEASURES.get(measure).doubt(prediction))
        curve = risk_coverage(doubt, right)
        point = None
        if accepted is not None:
            kept = require_accepted(accepted, labels)
            if bool(kept.any()):
                wrong = 1 - float(right[kept].double().mean())
                point = (float(kept.double().mean()), wrong)
        made = cls(curve.coverage.numpy(), curve.risk.numpy(), working_point=point, name=name)
        return made.plot(ax, line_kw=line_kw)

    def plot(
        self, ax: Axes | None = None, *, line_kw: Mapping[str, Any] | None = None
    ) -> RiskCoverageDisplay:
        """Draw it.

        Args:
            ax: The axes to draw on. Default: those of a new figure.
            line_kw: What matplotlib's `plot` takes for the line.

        Returns:
            The display, with `ax_`, `figure_` and `line_`.

        Raises:
            MissingExtraError: If matplotlib is not installed.
        """
        with drawing(ax, "What is gained by leaving some out?", legend_rows=2, columns=1) as axes:
            name = self.name or "wrong answers, the surest inputs first"
            before = axes.get_ylim()[1] if axes.lines else 0.0
            look = line_look(axes, line_kw, name)
            (self.line_,) = axes.plot(100 * self.coverage, 100 * self.risk, **look)
            if self.working_point is not None:
                coverage, risk = self.working_point
                label = "the rest is “I do not know”"
                mark = colour("vermillion")
                axes.plot(
                    [100 * coverage], [100 * risk], "o", color=mark, markersize=9, clip_on=False, label=label
                )
            axes.set(xlabel="inputs answered, %", ylabel="wrong answers, %", xlim=(0, 101))
            axes.set_ylim(0, max(LEAST_TOP, 108 * float(self.risk.max()), before))
        self.ax_ = axes
        self.figure_ = axes.figure
        return self
