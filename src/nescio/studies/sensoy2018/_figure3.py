"""Figure 3: the distribution of the entropy on images of no known class, and how well they are detected."""

from __future__ import annotations

import math

from nescio.plots import EntropyCDFDisplay, add_legend, panels
from nescio.plots._layout import PANEL
from nescio.studies._estimates import text_of
from nescio.studies._figures import Curve, Figure, Row
from nescio.studies.report import Table
from nescio.studies.sensoy2018._arms import COMPARED, label
from nescio.studies.sensoy2018._looks import LEGEND_COLUMNS, curve_rows, in_our_style, look
from nescio.studies.sensoy2018._results import CIFAR5, OOD_TITLES, TITLES, PaperResults
from nescio.studies.sensoy2018._table1 import nearly_deterministic
from nescio.studies.sensoy2018.presets import OOD

HEADER = ("method", "median entropy, %", "mean entropy, %", "AUROC", "AUPR", "FPR95, %")
# Name of the score, digits, scale.
AVERAGES = (
    ("ood_median_entropy", 1, 100.0),
    ("ood_mean_entropy", 1, 100.0),
    ("entropy_auroc", 3, 1.0),
    ("entropy_aupr", 3, 1.0),
)


@in_our_style
def draw(results: PaperResults) -> list[Figure]:
    """A panel for each data set that was measured."""
    comparisons = [name for name in results.comparisons if results.compared(name, OOD)]
    if not comparisons:
        return []
    width = PANEL[0] if len(comparisons) > 1 else 1.6 * PANEL[0]
    picture, grid = panels(len(comparisons), height=3.4, width=width)
    rows: list[Row] = []
    for axes, comparison in zip(grid[0], comparisons, strict=True):
        arms = results.compared(comparison, OOD)
        most = max(results.numbers(comparison, arms[0], OOD)[0]["entropy"])
        num_classes = round(math.exp(most))
        for arm in arms:
            curve = _curve(results, comparison, arm)
            means, band = curve.line()
            display = EntropyCDFDisplay(curve.at, means, num_classes=num_classes, band=band)
            display.plot(axes, line_kw=look(arm, marker_every=12))
        axes.set_ylabel("")
        title = f"{TITLES[comparison]} networks on\n{OOD_TITLES[comparison]}"
        axes.set_title(title, loc="left", weight="bold", size=11)
        rows += curve_rows(results, comparison, COMPARED, OOD, _lists)
    grid[0][0].set_ylabel("share up to this entropy")
    add_legend(picture, columns=LEGEND_COLUMNS)
    caption = (
        "Empirical distribution of the entropy of the predicted probabilities on images of no known class. "
        "The further to the bottom right, the more of them are met with doubt. The bands are 95% intervals: "
        "over three seeds, or over the images of one."
    )
    if results.comparison(CIFAR5) in comparisons:
        caption += nearly_deterministic(results)
    return [Figure("figure3", "Figure 3: entropy on images of no known class", caption, picture, rows)]


def _curve(results: PaperResults, comparison: str, arm: str) -> Curve:
    found = results.numbers(comparison, arm, OOD)
    lines = [numbers["share"]["ood"] for numbers in found]
    images = [found[0]["images"]["ood"]] * len(lines[0])
    return Curve(found[0]["entropy"], lines, is_share=True, images=images)


def _lists(numbers: dict[str, dict[str, list[float]]]) -> dict[str, list[float]]:
    return {
        "entropy": numbers["entropy"],  # type: ignore[dict-item]
        "share_ood": numbers["share"]["ood"],
        "share_known": numbers["share"]["known"],
    }


def table(results: PaperResults, comparison: str) -> Table:
    """A line for each method: entropy as a part of its maximum, and detection by entropy."""
    rows = []
    for arm in results.listed(comparison):
        cells = [label(arm)]
        for name, digits, scale in AVERAGES:
            found = results.average(comparison, arm, OOD, "scores", name)
            cells.append(text_of(found, digits, scale))
        false_alarms = results.share(comparison, arm, OOD, "scores", "entropy_fpr95")
        cells.append(text_of(false_alarms, 1, 100))
        rows.append(tuple(cells))
    caption = (
        "Entropy in percent of its maximum. AUROC, AUPR and FPR95: detection by entropy of the images of no "
        "known class, which are the positive ones. FPR95 is the share of known images taken for others when "
        "95% of the others are caught. In brackets 95% intervals: over three seeds or, for FPR95, over the "
        "images."
    )
    title = f"{TITLES[comparison]} networks on {OOD_TITLES[comparison]}"
    return Table(f"ood-{comparison}", title, caption, HEADER, rows)
