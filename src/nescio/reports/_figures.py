"""The charts of a model card: confusion, calibration, risk against coverage, uncertainty of OOD inputs."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from nescio.plots import (
    ConfusionDisplay,
    ReliabilityDisplay,
    RiskCoverageDisplay,
    UncertaintyDisplay,
    add_heading,
    panel,
    style,
)
from nescio.plots._layout import BELOW, box
from nescio.plots._reliability import STRIP, STRIP_GAP
from nescio.reports._results import Results


def draw_figures(results: Results, classes: Sequence[str], most_classes: int) -> dict[str, Figure]:
    """All charts that there is something to draw for, by name.

    Args:
        results: What was measured.
        classes: The names of the K classes.
        most_classes: The largest number of classes for which there is a matrix.
    """
    with style(dark=False):
        figures = {}
        if len(classes) <= most_classes:
            figures["confusion"] = confusion_figure(results, classes)
        figures["calibration"] = calibration_figure(results)
        if not bool(results.right.all()):
            figures["risk_coverage"] = risk_coverage_figure(results)
        if results.ood is not None:
            figures["ood"] = ood_figure(results)
        return figures


def confusion_figure(results: Results, classes: Sequence[str]) -> Figure:
    """The confusion matrix, with a column for what is not answered."""
    unknown = None
    if int(results.unanswered.sum()) > 0:
        unknown = results.unanswered
    display = ConfusionDisplay(results.answered_confusion, unknown=unknown, classes=classes)
    figure, axes = display.panel()
    display.plot(axes)
    return figure


def calibration_figure(results: Results) -> Figure:
    """How many answers are right, by their probability; below, how many answers there are."""
    figure, axes = panel(legend_rows=2, gap=STRIP + STRIP_GAP)
    strip = figure.add_axes(box(figure.get_figheight(), BELOW, STRIP))
    ReliabilityDisplay(results.calibration).plot(axes, counts_ax=strip)
    add_heading(figure, axes, "Is it as right as it says?", columns=1)
    return figure


def risk_coverage_figure(results: Results) -> Figure:
    """The share of wrong answers by the share of inputs that are answered, the surest first."""
    figure, axes = panel(legend_rows=2)
    point = None
    accuracy = results.accepted_accuracy
    if accuracy is not None:
        point = (results.accepted_share, 1 - accuracy)
    RiskCoverageDisplay(results.risks.coverage, results.risks.risk, working_point=point).plot(axes)
    add_heading(figure, axes, "What is gained by leaving some out?", columns=1)
    return figure


def ood_figure(results: Results) -> Figure:
    """How uncertain the model is of known and of out-of-distribution inputs."""
    assert results.ood is not None
    figure, axes = panel(legend_rows=1)
    groups = {"known classes": results.prediction, "out of distribution": results.ood}
    UncertaintyDisplay.from_predictions(groups, ax=axes)
    add_heading(figure, axes, "How uncertain is it of each?", columns=2)
    return figure
