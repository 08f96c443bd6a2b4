"""Figure 3: the distribution of the entropy on strangers, all methods, and how well they are told."""

from __future__ import annotations

import math

from nescio.studies.sensoy2018.book import STRANGERS_OF, TITLES, Book, label, spread
from nescio.studies.sensoy2018.drawing import (
    PANEL,
    Curve,
    Drawn,
    curve_rows,
    draw_curves,
    legend,
    panels,
    styled,
)
from nescio.studies.sensoy2018.experiments import COMPARED, STRANGERS

HEADER = ("method", "median entropy, %", "mean entropy, %", "AUROC", "AUPR", "FPR95")
MEASURES = (
    ("unknown_median_entropy", 1, 100.0),
    ("unknown_mean_entropy", 1, 100.0),
    ("entropy_auroc", 3, 1.0),
    ("entropy_aupr", 3, 1.0),
    ("entropy_fpr95", 3, 1.0),
)


@styled
def draw(book: Book) -> list[Drawn]:
    """A panel for each data set that was measured."""
    studies = [study for study in book.studies if book.variants(study, STRANGERS)]
    if not studies:
        return []
    figure, grid = panels(len(studies), tall=3.4, wide=PANEL[0] if len(studies) > 1 else 1.6 * PANEL[0])
    for axes, study in zip(grid[0], studies, strict=True):

        def curves(variant: str, study: str = study) -> list[Curve]:
            found = book.numbers(study, variant, STRANGERS)
            return [(each["entropy"], each["share"]["unknown"]) for each in found]

        draw_curves(axes, COMPARED, curves, markers=12)
        most = max(book.numbers(study, book.variants(study, STRANGERS)[0], STRANGERS)[0]["entropy"])
        axes.set(xlim=(0, most), ylim=(0, 1.02), xlabel=f"entropy, 0 to ln {round(math.exp(most))}")
        axes.set_title(
            f"{TITLES[study]} networks on\n{STRANGERS_OF[study]}", loc="left", weight="bold", size=11
        )
    grid[0][0].set_ylabel("share with at most this entropy")
    legend(figure)
    caption = (
        "Empirical distribution of the entropy of the predicted probabilities on images of no known class. "
        "The further to the bottom right, the more of them are met with doubt. The shade spans the seeds."
    )
    rows = [
        row
        for study in studies
        for row in curve_rows(
            book,
            study,
            COMPARED,
            STRANGERS,
            lambda n: {
                "entropy": n["entropy"],
                "share_unknown": n["share"]["unknown"],
                "share_known": n["share"]["known"],
            },
        )
    ]
    return [Drawn("figure3", "Figure 3: entropy on strangers", caption, figure, rows)]


def table(book: Book, study: str) -> list[tuple[str, ...]]:
    """A line for each method: entropy as a part of its maximum, and detection by entropy."""
    return [
        (
            label(variant),
            *(
                spread(book.values(study, variant, STRANGERS, "scores", name), digits, scale)
                for name, digits, scale in MEASURES
            ),
        )
        for variant in COMPARED
    ]
