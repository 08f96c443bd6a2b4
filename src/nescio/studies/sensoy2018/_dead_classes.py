"""How often a class dies with ReLU evidence: an output that is zero on every input."""

from __future__ import annotations

from nescio.studies._estimates import estimate, text_of
from nescio.studies._figures import Row
from nescio.studies.report import Table
from nescio.studies.sensoy2018._arms import DEAD_CLASSES, label
from nescio.studies.sensoy2018._results import PaperResults
from nescio.studies.sensoy2018.presets import KNOWN

COMPARISON = "dead_classes"
HEADER = (
    "method",
    "trainings",
    "with a dead class, %",
    "dead classes",
    "accuracy, strict, %",
    "by raw outputs, %",
)


def table(results: PaperResults) -> Table:
    """A line for each arm."""
    rows = [(label(arm), *_cells(results, arm)) for arm in DEAD_CLASSES]
    caption = (
        "ReLU evidence, equation 5 and the annealed divergence on 5,000 digits. A class is counted "
        "as dead when its evidence is zero on every test image. A ReLU output that is zero on every "
        "training image gets no gradient from the loss, and seldom comes back. In brackets 95% intervals: "
        "Wilson's over the trainings for their share, Student's over the seeds for the accuracies."
    )
    return Table("dead_classes", "How often a class dies with ReLU evidence", caption, HEADER, rows)


def _cells(results: PaperResults, arm: str) -> tuple[str, ...]:
    counts = dead_counts(results, arm)
    if not counts:
        return ("-",) * (len(HEADER) - 1)
    with_dead = sum(count > 0 for count in counts)
    share = estimate([with_dead / len(counts)], is_share=True, images=len(counts))
    accuracies = []
    for name in ("accuracy", "raw_accuracy"):
        found = results.share(COMPARISON, arm, KNOWN, "scores", name)
        accuracies.append(text_of(found, 1, 100))
    return str(len(counts)), text_of(share, 0, 100), str(sum(counts)), *accuracies


def dead_counts(results: PaperResults, arm: str) -> list[int]:
    """Of each training, the number of classes without evidence on any test image."""
    return [len(numbers["evidence"]["dead"]) for numbers in results.numbers(COMPARISON, arm, KNOWN)]


def rows(results: PaperResults) -> list[Row]:
    """Every training, for a CSV file."""
    found: list[Row] = []
    for arm in DEAD_CLASSES:
        for result in results.of(COMPARISON, arm):
            numbers = result.numbers.get(KNOWN)
            if numbers is not None:
                dead = " ".join(map(str, numbers["evidence"]["dead"]))
                found.append({"method": label(arm), "seed": result.seed, "dead": dead, **numbers["scores"]})
    return found
