"""`nescio score`: what a model says of a whole folder or array."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def score(
    model: Annotated[Path, typer.Argument(help="A model file, .safetensors.")],
    source: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of pictures, an .npz or a .csv.")],
    out: Annotated[Path, typer.Option(help="The Parquet file to write.")],
    on: Annotated[str, typer.Option(help="here, or ray for the machines of a cluster.")] = "here",
) -> None:
    """Write what a model says of every input, as Parquet; stopped and started again, it goes on."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from nescio.inference.bulk import score as score_all

    console = Console(stderr=True)
    columns = (TextColumn("scoring"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("scoring", total=None)
        outcome = score_all(
            model,
            source,
            out,
            on=on,
            report=lambda done, total: progress.update(task, completed=done, total=total),
        )
    unread = f", {outcome.errors:,} of them unreadable (column error)" if outcome.errors else ""
    typer.echo(f"{out}: {outcome.inputs:,} inputs{unread}")
