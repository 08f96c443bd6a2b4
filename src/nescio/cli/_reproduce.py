"""`nescio reproduce`: the paper's table and figures, ours beside theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nescio.cli._console import require_folder
from nescio.cli._help import Command

if TYPE_CHECKING:
    from nescio.studies.runner import Progress

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
    sets: Annotated[Several, typer.Option(metavar="NAME...", help="Only these data sets.")] = None,
    methods: Annotated[Several, typer.Option(metavar="NAME...", help="Only these methods.")] = None,
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
    with study_progress() as progress:
        run(experiments, folder, on, progress)
    path = report.write(folder, preset, seeds)
    typer.echo(f"Open in a browser: {path.resolve().as_uri()}")


@contextmanager
def study_progress() -> Iterator[Progress]:
    """Lines that stay, and below them on a terminal the training at work."""
    from rich.console import Console

    from nescio.studies.runner import Progress

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    with console.status("starting") as status:

        def epoch(name: str, metrics: dict[str, float]) -> None:
            status.update(f"{name}: epoch {metrics['epoch']:.0f}, accuracy {metrics['accuracy']:.3f}")

        yield Progress(lambda line: console.print(line, markup=False), epoch)
