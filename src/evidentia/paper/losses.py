"""The three losses compared: the paper says that two of them give too much belief and are less stable."""

from __future__ import annotations

from collections.abc import Callable

from evidentia.paper.book import MNIST, TITLES, Book, spread
from evidentia.paper.drawing import LOOKS, Drawn, panels, styled
from evidentia.paper.experiments import KNOWN, LOSSES, STRANGERS
from evidentia.plots import PALETTE

Path = tuple[str, ...]
# What is shown: heading, where it is found, digits, scale.
MEASURES: tuple[tuple[str, Path, int, float], ...] = (
    ("accuracy, %", (KNOWN, "scores", "accuracy"), 2, 100.0),
    ("calibration error, %", (KNOWN, "scores", "ece"), 2, 100.0),
    ("NLL", (KNOWN, "scores", "nll"), 4, 1.0),
    ("median total evidence", (KNOWN, "evidence", "median"), 0, 1.0),
    ("greatest total evidence", (KNOWN, "evidence", "highest"), 0, 1.0),
    ("mean belief, %", (KNOWN, "evidence", "belief"), 1, 100.0),
    ("mean belief when wrong, %", (KNOWN, "evidence", "belief_when_wrong"), 1, 100.0),
    ("mean entropy on strangers, %", (STRANGERS, "scores", "unknown_mean_entropy"), 1, 100.0),
    ("AUROC on strangers", (STRANGERS, "scores", "entropy_auroc"), 3, 1.0),
)
DRAWN = (0, 1, 3, 6)
HEADER = ("loss", "seeds", *(heading for heading, *_ in MEASURES))


def table(book: Book) -> list[tuple[str, ...]]:
    """A line for each loss: means over the seeds with their standard deviations."""
    study = book.study(MNIST)
    return [
        (
            name,
            str(len(book.numbers(study, variant, KNOWN))),
            *(
                spread(book.values(study, variant, *path), digits, scale)
                for _, path, digits, scale in MEASURES
            ),
        )
        for variant, name in LOSSES.items()
    ]


@styled
def draw(book: Book) -> list[Drawn]:
    """A point for each seed, a panel for each of some measures."""
    study = book.study(MNIST)
    shown = book.variants(study, KNOWN, tuple(LOSSES))
    if study is None or not shown:
        return []
    figure, grid = panels(2, rows=2, tall=1.7)
    for axes, place in zip(grid.flat, DRAWN, strict=True):
        heading, path, _, scale = MEASURES[place]
        for height, variant in enumerate(shown):
            colour, _, marker = LOOKS[variant]
            values = [scale * value for value in book.values(study, variant, *path)]
            axes.plot(values, [height] * len(values), marker, color=PALETTE[colour], markersize=9, alpha=0.75)
        axes.set(ylim=(len(shown) - 0.4, -0.6), yticks=range(len(shown)))
        axes.set_yticklabels(
            [LOSSES[variant] for variant in shown] if axes in grid[:, 0] else [""] * len(shown)
        )
        axes.set_title(heading, loc="left", size=11)
        axes.margins(x=0.12)
    caption = (
        f"EDL on {TITLES[study]} with each of the paper's losses, all else alike; a point for each seed."
    )
    return [Drawn("losses", "The three losses", caption, figure, _rows(book, study))]


def _rows(book: Book, study: str) -> list[dict[str, object]]:
    def value(numbers: Callable[[str], object], path: Path) -> object:
        found = numbers(path[0])
        for name in path[1:]:
            found = None if found is None else found[name]  # type: ignore[index]
        return found

    return [
        {
            "data": study,
            "method": variant,
            "seed": result.seed,
            **{heading: value(result.numbers, path) for heading, path, *_ in MEASURES},
        }
        for variant in LOSSES
        for result in book.of(study, variant)
    ]
