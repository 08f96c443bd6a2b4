"""The charts of the report."""

from __future__ import annotations

from matplotlib.figure import Figure

from nescio.demo._run import ANGLES, DemoResult, ModelResult
from nescio.opinions.categorical import Prediction
from nescio.opinions.opinion import Opinion
from nescio.plots import (
    EntropyCDFDisplay,
    RotationDisplay,
    ThresholdDisplay,
    add_heading,
    colour,
    panel,
    style,
    svg,
)
from nescio.plots._layout import BELOW, LEFT, RIGHT, WIDTH, box
from nescio.plots._rotation import probable_classes


def charts(outcome: DemoResult) -> dict[str, str]:
    """Every chart by its name, as SVG elements."""
    with style(dark=False):
        figures = {
            "entropy_letters": entropy_figure(outcome, "letters"),
            "entropy_digits": entropy_figure(outcome, "digits"),
            "rotation_softmax": rotation_figure(outcome, outcome.softmax),
            "rotation_evidential": rotation_figure(outcome, outcome.evidential),
            "accuracy": accuracy_figure(outcome),
            "share": share_figure(outcome),
        }
        return {name: svg(figure, name) for name, figure in figures.items()}


def entropy_figure(outcome: DemoResult, of: str) -> Figure:
    """The share of letters or digits whose entropy is at most so much."""
    figure, axes = panel()
    for result in outcome.both:
        prediction: Prediction = getattr(result, of)
        EntropyCDFDisplay.from_predictions(prediction, name=result.name, normalized=True, ax=axes)
    axes.set_ylabel(f"share of {of} up to this")
    add_heading(figure, axes, f"On {of}")
    return figure


def rotation_figure(outcome: DemoResult, result: ModelResult) -> Figure:
    """Probabilities of the 1 as it turns, for an evidential model its uncertainty too; the 1 itself below."""
    tile = (WIDTH - LEFT - RIGHT) / len(ANGLES[::2])
    figure, axes = panel(legend_rows=2, gap=tile + 0.06)
    strip = figure.add_axes(box(figure.get_figheight(), BELOW, tile))
    truth = outcome.inputs.test.classes.index("1")
    names = list(result.model.classes)
    names[truth] = f"it is a {names[truth]}"
    uncertainty = None
    if isinstance(result.rotated, Opinion):
        uncertainty = result.rotated.uncertainty
    display = RotationDisplay(
        ANGLES,
        result.rotated.probabilities,
        uncertainty=uncertainty,
        images=outcome.inputs.rotated[:, 0],
        classes=names,
    )
    both = [each.rotated.probabilities.numpy() for each in outcome.both]
    # Raw pixels, which stay sharp at any size of the page.
    display.plot(axes, strip_ax=strip, drawn=probable_classes(both, truth), interpolation="none")
    add_heading(figure, axes, result.name.capitalize(), columns=4)
    return figure


def accuracy_figure(outcome: DemoResult) -> Figure:
    """Accuracy on the digits that are not more uncertain than a threshold."""
    figure, axes = panel(legend_rows=2)
    for result in outcome.both:
        labels = result.model.labels_of(outcome.inputs.test)
        ThresholdDisplay.from_predictions(result.digits, labels, name=result.name, ax=axes)
    add_heading(figure, axes, "Right answers among the digits kept")
    return figure


def share_figure(outcome: DemoResult) -> Figure:
    """The share of digits, and of letters, that are not more uncertain than a threshold."""
    figure, axes = panel(legend_rows=2)
    for result, hue in ((outcome.evidential, "blue"), (outcome.softmax, "vermillion")):
        for of, dashes in (("digits", "-"), ("letters", ":")):
            ThresholdDisplay.from_predictions(
                getattr(result, of),
                curve="coverage",
                name=f"{of}, {result.name}",
                ax=axes,
                line_kw={"color": colour(hue), "linestyle": dashes},
            )
    add_heading(figure, axes, "How many are kept", columns=2)
    return figure
