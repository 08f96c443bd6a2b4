"""How good the probabilities are: calibration and proper scores of all methods."""

from __future__ import annotations

from nescio.studies.sensoy2018.book import Book, label, spread
from nescio.studies.sensoy2018.experiments import COMPARED, KNOWN

# What is shown: heading, name of the score, digits, scale.
MEASURES = (
    ("calibration error, %", "ece", 2, 100.0),
    ("NLL", "nll", 4, 1.0),
    ("Brier", "brier", 4, 1.0),
    ("AURC, %", "aurc", 3, 100.0),
)
HEADER = ("method", *(heading for heading, *_ in MEASURES))


def table(book: Book, study: str) -> list[tuple[str, ...]]:
    """A line for each method: means over the seeds with their standard deviations."""
    return [
        (
            label(variant),
            *(
                spread(book.values(study, variant, KNOWN, "scores", name), digits, scale)
                for _, name, digits, scale in MEASURES
            ),
        )
        for variant in COMPARED
    ]
