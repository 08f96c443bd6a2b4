"""How good the probabilities are: calibration and proper scores of all methods."""

from __future__ import annotations

from nescio.studies._estimates import text_of
from nescio.studies.report import Table
from nescio.studies.sensoy2018._arms import label
from nescio.studies.sensoy2018._results import TITLES, PaperResults
from nescio.studies.sensoy2018.presets import KNOWN

# What is shown: name of the score, digits, scale.
SCORES = (("ece", 2, 100.0), ("nll", 4, 1.0), ("brier", 4, 1.0), ("aurc", 3, 100.0))
HEADER = ("method", "calibration error, %", "NLL", "Brier", "AURC, %")


def table(results: PaperResults, comparison: str) -> Table:
    """A line for each method."""
    rows = []
    for arm in results.listed(comparison):
        cells = [label(arm)]
        for name, digits, scale in SCORES:
            found = results.average(comparison, arm, KNOWN, "scores", name)
            cells.append(text_of(found, digits, scale))
        rows.append(tuple(cells))
    caption = (
        "Lower is better for all. Calibration error: how far confidence is from accuracy. AURC: the "
        "share of errors among the most certain images, averaged over how many these are; certain by u "
        "for EDL and by entropy for the others. In brackets 95% intervals over three seeds."
    )
    title = f"How good the probabilities are, {TITLES[comparison]}"
    return Table(f"probabilities-{comparison}", title, caption, HEADER, rows)
