"""The charts of a model card: confusion, calibration, risk against coverage, uncertainty of OOD inputs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from nescio.metrics import wilson_interval
from nescio.plots import BELOW, INK, PALETTE, STYLE, add_heading, box, panel
from nescio.reports._results import BINS, Results

DPI = 100
CELL = 0.42  # inches of a cell of the matrix, where there are few
SMALL_CELL = 0.3
FEW_CLASSES = 12
LONGEST_NAME = 18
UPRIGHT_NAME = 3  # characters that have room beside each other
CHARACTER = 0.088  # inches, about
STRONGEST = 0.55  # opacity of a cell: the number on it is still read on a light and on a dark page
FAINTEST = 0.08
STRIP = 0.55  # inches of the bars below the calibration
STRIP_GAP = 0.22
HISTOGRAM_BINS = 25
CALIBRATION_RANGE = (0, 1.02)  # a point at 1 is seen whole


def draw_figures(results: Results, classes: Sequence[str], most_classes: int) -> dict[str, Figure]:
    """All charts that there is something to draw for, by name.

    Args:
        results: What was measured.
        classes: The names of the K classes.
        most_classes: The largest number of classes for which there is a matrix.
    """
    with chart_style():
        figures = {}
        if len(classes) <= most_classes:
            figures["confusion"] = confusion_figure(results, classes)
        figures["calibration"] = calibration_figure(results)
        if not bool(results.right.all()):
            figures["risk_coverage"] = risk_coverage_figure(results)
        if results.ood is not None:
            figures["ood"] = ood_figure(results)
        return figures


@contextmanager
def chart_style() -> Iterator[None]:
    """The shared style; a name in letters that the font does not have is drawn as boxes without a word."""
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        warnings.filterwarnings("ignore", ".*does not support .* natively")
        yield


def png(figure: Figure) -> bytes:
    """A figure on white as the bytes of a PNG file."""
    file = BytesIO()
    with chart_style():
        figure.savefig(file, format="png", dpi=DPI, facecolor="white", metadata={"Software": None})
    return file.getvalue()


def confusion_figure(results: Results, classes: Sequence[str]) -> Figure:
    """The confusion matrix; the shade of a cell is its share of the true class."""
    count = len(classes)
    names = [_short(name) for name in classes]
    cell = CELL if count <= FEW_CLASSES else SMALL_CELL
    characters = max(len(name) for name in names)
    longest = characters * CHARACTER
    turned = 90
    deep = longest
    if characters <= UPRIGHT_NAME:
        turned = 0
        deep = CHARACTER
    side = count * cell
    width = longest + 0.55 + side + 0.12
    height = deep + 0.6 + side + 0.12
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes(((longest + 0.55) / width, (deep + 0.6) / height, side / width, side / height))
    font = 10 if count <= FEW_CLASSES else 8
    totals = results.of_classes.count.clamp_min(1)
    for truth, answer in results.confusion.nonzero().tolist():
        number = int(results.confusion[truth, answer])
        share = number / int(totals[truth])
        colour = PALETTE["blue"] if truth == answer else PALETTE["vermillion"]
        shade = FAINTEST + (STRONGEST - FAINTEST) * share
        axes.add_patch(Rectangle((answer, truth), 1, 1, facecolor=colour, alpha=shade, linewidth=0))
        size = font if number < 1000 else font - 2
        axes.text(answer + 0.5, truth + 0.5, str(number), ha="center", va="center_baseline", size=size)
    places = np.arange(count) + 0.5
    axes.set_xticks(places, names, rotation=turned, size=font, parse_math=False)
    axes.set_yticks(places, names, size=font, parse_math=False)
    axes.set(xlim=(0, count), ylim=(count, 0), xlabel="answer", ylabel="truth")
    axes.tick_params(length=0)
    axes.grid(False)
    for place in range(1, count):
        axes.axhline(place, color=PALETTE["grid"], linewidth=0.6, zorder=0)
        axes.axvline(place, color=PALETTE["grid"], linewidth=0.6, zorder=0)
    return figure


def calibration_figure(results: Results) -> Figure:
    """How many answers are right, by their probability; below, how many answers there are."""
    figure, axes = panel(legend_rows=2, gap=STRIP + STRIP_GAP)
    bins = results.calibration
    axes.plot(
        [0, 1], [0, 100], color=PALETTE["muted"], linestyle="--", linewidth=1.4, label="as it should be"
    )
    confidence = []
    share = []
    below = []
    above = []
    for place in range(BINS):
        number = int(bins.count[place])
        if number == 0:
            continue
        right = float(bins.accuracy[place])
        low, high = wilson_interval(right, number)
        confidence.append(float(bins.confidence[place]))
        share.append(100 * right)
        below.append(100 * max(right - low, 0))
        above.append(100 * max(high - right, 0))
    axes.errorbar(
        confidence,
        share,
        yerr=(below, above),
        color=PALETTE["blue"],
        linestyle="none",  # a line would lead through points that stand for one input or two
        marker="o",
        elinewidth=1.2,
        capsize=3,
        label="this model, with 95% intervals",
    )
    axes.set(xlim=CALIBRATION_RANGE, ylim=(0, 103), ylabel="right answers, %")
    axes.tick_params(labelbottom=False)
    add_heading(figure, axes, "Is it as right as it says?", columns=1)
    strip = figure.add_axes(box(figure.get_figheight(), BELOW, STRIP), xlabel="probability of the answer")
    middles = (np.arange(BINS) + 0.5) / BINS
    strip.bar(middles, bins.count.numpy(), width=0.9 / BINS, color=PALETTE["sky"])
    strip.set(xlim=CALIBRATION_RANGE, ylabel="inputs")
    strip.yaxis.set_major_locator(mpl.ticker.MaxNLocator(2, integer=True))
    return figure


def risk_coverage_figure(results: Results) -> Figure:
    """The share of wrong answers by the share of inputs that are answered, the surest first."""
    figure, axes = panel(legend_rows=2)
    coverage = 100 * results.risks.coverage
    risk = 100 * results.risks.risk
    axes.plot(coverage, risk, color=PALETTE["blue"], label="wrong answers, the surest inputs first")
    accuracy = results.accepted_accuracy
    if accuracy is not None:
        share = 100 * float(results.accepted.double().mean())
        wrong = 100 * (1 - accuracy)
        label = "the rest is “I do not know”"
        axes.plot([share], [wrong], "o", color=PALETTE["vermillion"], markersize=9, label=label)
    axes.set(xlabel="inputs answered, %", ylabel="wrong answers, %", xlim=(0, 101))
    axes.set_ylim(0, max(1.0, 1.08 * float(risk.max())))
    add_heading(figure, axes, "What is gained by leaving some out?", columns=1)
    return figure


def ood_figure(results: Results) -> Figure:
    """How uncertain the model is of known and of out-of-distribution inputs."""
    assert results.ood is not None
    figure, axes = panel(legend_rows=1)
    drawn = (
        ("known classes", results.prediction, PALETTE["blue"], "-"),
        ("out of distribution", results.ood, PALETTE["vermillion"], "--"),
    )
    edges = np.linspace(0, 1, HISTOGRAM_BINS + 1)
    for name, prediction, colour, dashes in drawn:
        doubt = prediction.uncertainty.double().cpu().clamp(0, 1).numpy()
        share = 100 * np.histogram(doubt, edges)[0] / len(doubt)
        axes.stairs(share, edges, color=colour, linestyle=dashes, linewidth=2, label=name)
        axes.stairs(share, edges, color=colour, fill=True, alpha=0.15)
    axes.set(xlabel="uncertainty", ylabel="inputs, %", xlim=(0, 1))
    axes.set_ylim(bottom=0)
    axes.spines["bottom"].set_color(INK)
    add_heading(figure, axes, "How uncertain is it of each?", columns=2)
    return figure


def _short(name: str) -> str:
    plain = " ".join(name.split())
    return plain if len(plain) <= LONGEST_NAME else plain[: LONGEST_NAME - 1] + "…"
