"""`nescio reproduce`: the paper's table and figures, ours beside theirs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nescio.cli._console import require_folder
from nescio.cli._help import Command
from nescio.cli._time_left import Piece, StudyTimeLeft

if TYPE_CHECKING:
    from nescio.studies.runner import Progress
    from nescio.studies.study import Experiment

Several = list[str] | None


class ManyNames(Command):
    """A command whose options take several words: --methods l2 edl."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Say the option again before every further word."""
        several = set()
        for parameter in self.params:
            if getattr(parameter, "multiple", False):
                several |= set(parameter.opts)
        said: list[str] = []
        option = ""
        for word in args:
            if word.startswith("-"):
                option = word if word in several else ""
            elif option and said[-1] != option:
                said.append(option)
            said.append(word)
        return super().parse_args(ctx, said)


def reproduce(
    only: Annotated[
        Several,
        typer.Option(metavar="NAME...", help="Only these: table1, figure1 to figure5, losses, dead_classes."),
    ] = None,
    preset: Annotated[
        str, typer.Option(help="quick: digits, some minutes. paper: the paper's own data, many hours.")
    ] = "quick",
    seeds: Annotated[int | None, typer.Option(help="So many trainings of each method.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder of the results, by default results/PRESET.")
    ] = None,
    on: Annotated[str, typer.Option(help="here, or ray: on all processors of a Ray cluster.")] = "here",
    sets: Annotated[
        Several, typer.Option(metavar="NAME...", help="Only these: digits, mnist, cifar5, dead_classes.")
    ] = None,
    methods: Annotated[
        Several,
        typer.Option(
            metavar="NAME...",
            help="Only these: l2, dropout, ensemble, ffgu, fflu, mnfg, edl, edl-printed, edl-notebook.",
        ),
    ] = None,
) -> None:
    """Make the paper's table and figures; called again, only what is missing is computed."""
    from nescio.reports._page import require_extras

    require_extras()
    from nescio.studies.runner import run
    from nescio.studies.sensoy2018 import _report as report
    from nescio.studies.sensoy2018.presets import plan

    experiments = plan(preset, seeds, sets or (), methods or (), only or ())
    folder = Path("results", preset) if out is None else out
    require_folder(folder)
    with study_progress(experiments, folder) as progress:
        run(experiments, folder, on, progress)
    path = report.write(folder, preset, seeds)
    typer.echo(f"Open in a browser: {path.resolve().as_uri()}")


@contextmanager
def study_progress(experiments: Sequence[Experiment], folder: Path) -> Iterator[Progress]:
    """Lines that stay, and below them on a terminal the training at work; both with the time left."""
    from rich.console import Console

    from nescio.studies.runner import Progress

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    left = StudyTimeLeft(_pieces(experiments, folder))
    has_news = False
    with console.status("starting") as status:

        def epoch(name: str, metrics: dict[str, float]) -> None:
            left.epoch(name)
            figures = f"epoch {metrics['epoch']:.0f}, accuracy {metrics['accuracy']:.3f}"
            status.update(f"{name}: {figures}{left.text()}")

        def finished(name: str) -> None:
            nonlocal has_news
            left.finished(name)
            has_news = True

        def say(line: str) -> None:
            nonlocal has_news
            if has_news:
                line += left.text()
            has_news = False
            console.print(line, markup=False)

        yield Progress(say, epoch, finished)


def _pieces(experiments: Sequence[Experiment], folder: Path) -> list[Piece]:
    """What is to be done, and about how much it is."""
    from nescio.studies.runner import is_trained, missing

    pieces = []
    for experiment in experiments:
        if not missing(experiment, folder):
            continue
        epochs = 1
        if not is_trained(experiment.plan, folder):
            plan = experiment.plan
            epochs = (plan.settings().epochs or 1) * plan.build_method().trainings
        pieces.append(Piece(experiment.name, experiment.comparison, epochs))
    return pieces
