"""Figure 2: accuracy of what is answered, and how much is, against the uncertainty that is allowed."""

from __future__ import annotations

from nescio.studies.sensoy2018.book import TITLES, Book
from nescio.studies.sensoy2018.drawing import Curve, Drawn, curve_rows, draw_curves, legend, panels, styled
from nescio.studies.sensoy2018.experiments import KNOWN

SHOWN = ("edl", "edl-paper")
ROOM = (-0.03, 1.03)  # what happens at u = 1 shall not hide on the edge


@styled
def draw(book: Book) -> list[Drawn]:
    """A column for each data set that was measured."""
    studies = [study for study in book.studies if book.variants(study, KNOWN, SHOWN)]
    if not studies:
        return []
    figure, grid = panels(len(studies), rows=2, tall=2.5)
    for column, study in enumerate(studies):
        for axes, name in zip(grid[:, column], ("accuracy", "coverage"), strict=True):

            def curves(variant: str, study: str = study, name: str = name) -> list[Curve]:
                found = book.numbers(study, variant, KNOWN)
                return [
                    (each["threshold"]["threshold"], in_percent(each["threshold"][name])) for each in found
                ]

            draw_curves(axes, SHOWN, curves, markers=10)
            axes.set(xlim=ROOM)
            axes.yaxis.set_major_formatter("{x:g}")
        grid[0, column].set_title(TITLES[study], loc="left", weight="bold")
        grid[1, column].set(xlabel="uncertainty allowed", ylim=(-3, 103))
    grid[0, 0].set_ylabel("accuracy of these, %")
    grid[1, 0].set_ylabel("answered, %")
    legend(figure)
    caption = (
        "Above: accuracy on the test images whose uncertainty is not above the threshold; below: their "
        "share. Where no image is that certain there is no accuracy. At 1 those without any evidence are "
        "answered too, and count as wrong. The shade spans the seeds."
    )
    rows = [
        row
        for study in studies
        for row in curve_rows(book, study, SHOWN, KNOWN, lambda n: dict(n["threshold"]))
    ]
    return [Drawn("figure2", "Figure 2: accuracy against uncertainty", caption, figure, rows)]


def in_percent(shares: list[float | None]) -> list[float | None]:
    """Shares in percent; what is not there stays so."""
    return [None if share is None else 100 * share for share in shares]
