"""Table 1: test accuracy of all methods, ours beside the paper's."""

from __future__ import annotations

from nescio.studies.sensoy2018.book import CIFAR5, MNIST, TITLES, Book, label, spread
from nescio.studies.sensoy2018.drawing import Row
from nescio.studies.sensoy2018.experiments import COMPARED, KNOWN

# In percent, as printed in the paper.
PUBLISHED = {
    "l2": {MNIST: 99.4, CIFAR5: 76.0},
    "dropout": {MNIST: 99.5, CIFAR5: 84.0},
    "ensemble": {MNIST: 99.3, CIFAR5: 79.0},
    "ffgu": {MNIST: 99.1, CIFAR5: 78.0},
    "fflu": {MNIST: 99.1, CIFAR5: 77.0},
    "mnfg": {MNIST: 99.3, CIFAR5: 84.0},
    "edl": {MNIST: 99.3, CIFAR5: 83.0},
    "edl-paper": {MNIST: 99.3, CIFAR5: 83.0},
}


def header(book: Book) -> tuple[str, ...]:
    """Three columns for each of the paper's data sets; a stand-in is named."""
    names: list[str] = []
    for role in (MNIST, CIFAR5):
        study = book.study(role)
        ours = TITLES[study] if study else TITLES[role]
        names += [f"{ours}, u = 1 is wrong", f"{ours}, arg-max", f"{TITLES[role]}, the paper"]
    return ("method", "seeds", *names)


def table(book: Book) -> list[tuple[str, ...]]:
    """A line for each method, accuracies in percent; a dash where nothing was measured."""
    return [(label(variant), _seeds(book, variant), *_cells(book, variant)) for variant in COMPARED]


def without_evidence(book: Book) -> str:
    """What u = 1 costs EDL as in the paper, in a sentence; nothing where it costs nothing."""
    study, variant = book.study(MNIST), "edl-paper"
    accuracy = book.mean(study, variant, KNOWN, "scores", "accuracy")
    rejected = book.mean(study, variant, KNOWN, "evidence", "rejected")
    if study is None or accuracy is None or not rejected or rejected == 1:
        return ""
    return (
        f" With {label(variant)} {100 * rejected:.2f}% of the images of {TITLES[study]} have none; of the "
        f"others {100 * accuracy / (1 - rejected):.2f}% are right."
    )


def _cells(book: Book, variant: str) -> list[str]:
    cells = []
    for role in (MNIST, CIFAR5):
        study, digits = book.study(role), 2 if role == MNIST else 1
        for name in ("accuracy", "raw_accuracy"):
            cells.append(spread(book.values(study, variant, KNOWN, "scores", name), digits))
        cells.append(f"{PUBLISHED[variant][role]:g}")
    return cells


def _seeds(book: Book, variant: str) -> str:
    counts = [len(book.numbers(book.study(role), variant, KNOWN)) for role in (MNIST, CIFAR5)]
    return " / ".join(
        str(count) for count, role in zip(counts, (MNIST, CIFAR5), strict=True) if book.study(role)
    )


def rows(book: Book) -> list[Row]:
    """Every score of every training, for a CSV file."""
    return [
        {"data": each.study, "method": each.variant, "seed": each.seed, **found["scores"]}
        for each in book.results
        if each.study in book.studies and (found := each.numbers(KNOWN)) is not None
    ]
