"""`evidentia reproduce`: the paper's table and figures, ours beside theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from evidentia.paper.engine import Told

Several = Annotated[list[str] | None, typer.Option(metavar="NAME")]


def reproduce(
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only these: table1, figure1 .. figure5, losses, deaths."),
    ] = None,
    preset: Annotated[
        str, typer.Option(help="quick: digits, some minutes; paper: all, many hours.")
    ] = "quick",
    seeds: Annotated[int | None, typer.Option(help="So many trainings of each method.")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder; by default results/PRESET.")] = None,
    on: Annotated[str, typer.Option(help="here, or ray: on a cluster.")] = "here",
    sets: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only these data sets.")] = None,
    methods: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only these methods.")] = None,
    report_only: Annotated[bool, typer.Option("--report", help="Train nothing: write the report.")] = False,
) -> None:
    """Make the paper's table and figures; called again, only what is missing is computed."""
    from evidentia.demo.run import require_extras

    require_extras()
    from evidentia.paper.experiments import plan
    from evidentia.paper.grid import run_grid
    from evidentia.paper.report import write_report

    folder = out or Path("results") / preset
    experiments = plan(preset, seeds, sets or (), methods or (), only or ())
    if not report_only:
        with told() as hearing:
            run_grid(experiments, folder, on, hearing)
    path = write_report(folder, preset, only or ())
    typer.echo(f"Open in a browser: {path.resolve().as_uri()}")


@contextmanager
def told() -> Iterator[Told]:
    """Lines on the terminal, and below them the training at work."""
    from rich.console import Console

    from evidentia.paper.engine import Told

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    with console.status("starting") as status:

        def epoch(name: str, metrics: dict[str, float]) -> None:
            status.update(f"{name}: epoch {metrics['epoch']:.0f}, accuracy {metrics['accuracy']:.3f}")

        yield Told(lambda line: console.print(line, markup=False), epoch)
