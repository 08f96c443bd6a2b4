"""The charts of the report."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import torch
from matplotlib.figure import Figure
from torch import Tensor

from nescio.demo._run import ANGLES, DemoResult, ModelResult
from nescio.metrics import accuracy_against_threshold, entropy_cdf
from nescio.opinions.categorical import Prediction
from nescio.plots import BELOW, INK, LEFT, PALETTE, RIGHT, STYLE, WIDTH, add_heading, box, panel, svg

if TYPE_CHECKING:
    pass

EVIDENTIAL = PALETTE["blue"]
SOFTMAX = PALETTE["vermillion"]
LINES = ("blue", "vermillion", "green", "purple", "orange", "sky")
MARKERS = "osD^vP"
PEAK = 0.2  # a class is drawn when at some angle it is at least so probable


def charts(outcome: DemoResult) -> dict[str, str]:
    """Every chart by its name, as SVG elements."""
    with mpl.rc_context(STYLE):
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
    for result, colour, dashes in _both(outcome):
        prediction: Prediction = getattr(result, of)
        curve = entropy_cdf(prediction, points=201)
        part = curve.entropy / math.log(prediction.num_classes)
        axes.plot(part, 100 * curve.share, color=colour, linestyle=dashes, label=result.name)
    axes.set(xlabel="entropy (0: one class, 1: all classes alike)", ylabel=f"{of} with at most this, %")
    axes.set(xlim=(0, 1), ylim=(0, 101))
    add_heading(figure, axes, f"On {of}")
    return figure


def rotation_figure(outcome: DemoResult, result: ModelResult) -> Figure:
    """Probabilities of the 1 as it turns, for an evidential model its uncertainty too; the 1 itself below."""
    shown = ANGLES[::2]
    step = shown[1] - shown[0]
    ends = (shown[0] - step / 2, shown[-1] + step / 2)
    tile = (WIDTH - LEFT - RIGHT) / len(shown)
    figure, axes = panel(legend_rows=2, gap=tile + 0.06)
    for place, label in enumerate(_classes_shown(outcome)):
        style: Any = {"color": PALETTE[LINES[place]], "marker": MARKERS[place]}
        name = result.model.classes[label]
        if place == 0:
            name = f"it is a {name}"
        axes.plot(ANGLES, result.rotated.probabilities[:, label], label=name, **style)
    if result is outcome.evidential:
        axes.plot(ANGLES, result.rotated.uncertainty, color=INK, linestyle="--", label="uncertainty")
    axes.set(xlim=ends, ylim=(-0.03, 1.03), xticks=shown, ylabel="probability")
    axes.tick_params(labelbottom=False)
    add_heading(figure, axes, result.name.capitalize(), columns=4)
    _draw_strip(figure, outcome.inputs.rotated[::2], ends, tile)
    return figure


def accuracy_figure(outcome: DemoResult) -> Figure:
    """Accuracy on the digits that are not more uncertain than a threshold."""
    figure, axes = panel(legend_rows=2)
    for result, colour, dashes in _both(outcome):
        curve = accuracy_against_threshold(result.digits, result.model.labels_of(outcome.inputs.test))
        share = 100 * curve.accuracy
        axes.plot(curve.threshold, share, color=colour, linestyle=dashes, label=result.name)
    axes.set(xlabel="uncertainty allowed", ylabel="accuracy, %", xlim=(0, 1))
    axes.yaxis.set_major_formatter("{x:g}")
    add_heading(figure, axes, "Right answers among the digits kept")
    return figure


def share_figure(outcome: DemoResult) -> Figure:
    """The share of digits, and of letters, that are not more uncertain than a threshold."""
    figure, axes = panel(legend_rows=2)
    for result, colour, _ in _both(outcome):
        for of, dashes in (("digits", "-"), ("letters", ":")):
            threshold, share = _kept(getattr(result, of))
            axes.plot(threshold, 100 * share, color=colour, linestyle=dashes, label=f"{of}, {result.name}")
    axes.set(xlabel="uncertainty allowed", ylabel="kept, %", xlim=(0, 1), ylim=(0, 101))
    add_heading(figure, axes, "How many are kept", columns=2)
    return figure


def _both(outcome: DemoResult) -> tuple[tuple[ModelResult, str, str], ...]:
    """Each with its colour and dashes."""
    return (outcome.evidential, EVIDENTIAL, "-"), (outcome.softmax, SOFTMAX, "--")


def _classes_shown(outcome: DemoResult) -> list[int]:
    """Those that either model finds probable at some angle, the 1 first; no more than there are colours."""
    both = torch.stack([result.rotated.probabilities for result in outcome.both])
    peaks = both.amax(dim=(0, 1))
    peaks[outcome.inputs.test.classes.index("1")] = 2.0
    ranked = peaks.argsort(descending=True)[: len(LINES)].tolist()
    return [label for label in ranked if peaks[label] >= PEAK]


def _draw_strip(figure: Figure, images: Tensor, ends: tuple[float, float], tile: float) -> None:
    """Images (T, 1, H, W) in a row, each below its angle."""
    axes = figure.add_axes(box(figure.get_figheight(), BELOW, tile), xlabel="turned by, degrees")
    row = torch.cat(list(images[:, 0]), dim=1)
    axes.imshow(row.numpy(), cmap="gray", interpolation="none", aspect="auto", extent=(*ends, 0, 1))
    axes.grid(False)
    axes.set(xticks=ANGLES[::2], yticks=[])


def _kept(prediction: Prediction) -> tuple[Tensor, Tensor]:
    curve = accuracy_against_threshold(prediction, prediction.labels)
    return curve.threshold, curve.coverage
