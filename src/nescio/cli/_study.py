"""`nescio study NAME`: a comparison of methods, trained, measured and summed up in a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nescio.cli._console import require_folder
from nescio.cli._reproduce import Several, study_progress
from nescio.errors import InputError

STUDIES = ("successors",)


def study(
    name: Annotated[str, typer.Argument(help="successors: evidential methods and baselines side by side.")],
    only: Annotated[
        Several,
        typer.Option(
            metavar="NAME...",
            help="Only these data sets: letter, clinc150, 20newsgroups, cifar5, mnist, cifar5-lenet.",
        ),
    ] = None,
    methods: Annotated[
        Several,
        typer.Option(
            metavar="NAME...", help="Only these methods, and edl-paper: EDL with the loss of the paper."
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="So many trainings of each method.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder of the results, by default results/NAME.")
    ] = None,
    on: Annotated[str, typer.Option(help="here, or ray: on all processors of a Ray cluster.")] = "here",
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Train nothing; write the report of what is there.")
    ] = False,
) -> None:
    """Compare methods under one protocol; called again, only what is missing is computed."""
    from nescio.reports._page import require_extras

    require_extras()
    from nescio.studies.runner import run
    from nescio.studies.successors import _report as report
    from nescio.studies.successors.experiments import plan

    if name not in STUDIES:
        raise InputError(f"name must be one of {', '.join(STUDIES)}, got {name!r}")
    experiments = plan(seeds, only or (), methods or ())
    folder = Path("results", name) if out is None else out
    require_folder(folder)
    if not report_only:
        with study_progress(experiments, folder) as progress:
            run(experiments, folder, on, progress)
    path = report.write(folder, seeds)
    typer.echo(f"Open in a browser: {path.resolve().as_uri()}")
