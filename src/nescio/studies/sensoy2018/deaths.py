"""How often a class of the paper's network dies: with ReLU evidence an output can be zero on every input."""

from __future__ import annotations

from nescio.studies.sensoy2018.book import Book, spread
from nescio.studies.sensoy2018.drawing import Row
from nescio.studies.sensoy2018.experiments import DEATHS, KNOWN

STUDY = "deaths"
STARTS = {"edl-paper": "at 1", "edl-paper-bias-0": "as usual, near 0"}
HEADER = ("biases of the outputs start", "trainings", "with a dead class", "dead classes", "accuracy, %")


def table(book: Book) -> list[tuple[str, ...]]:
    """A line for each start of the output biases."""
    return [(STARTS[variant], *_cells(book, variant)) for variant in DEATHS]


def _cells(book: Book, variant: str) -> tuple[str, ...]:
    counts = dead(book, variant)
    if not counts:
        return ("-",) * (len(HEADER) - 1)
    accuracy = spread(book.values(STUDY, variant, KNOWN, "scores", "accuracy"))
    return str(len(counts)), str(sum(count > 0 for count in counts)), str(sum(counts)), accuracy


def dead(book: Book, variant: str) -> list[int]:
    """Of each training, the number of classes without evidence on any test image."""
    return [len(numbers["evidence"]["dead"]) for numbers in book.numbers(STUDY, variant, KNOWN)]


def rows(book: Book) -> list[Row]:
    """Every training, for a CSV file."""
    return [
        {
            "method": variant,
            "seed": result.seed,
            "dead": " ".join(str(one) for one in numbers["evidence"]["dead"]),
            "accuracy": numbers["scores"]["accuracy"],
        }
        for variant in DEATHS
        for result in book.of(STUDY, variant)
        if (numbers := result.numbers(KNOWN)) is not None
    ]
