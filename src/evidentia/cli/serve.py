"""`evidentia serve`: opinions over HTTP, and the page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def serve(
    models: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[MODEL]...", help="Model files. Default: the bundled pair."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, help="So many processes.")] = 1,
) -> None:
    """Serve models over HTTP, with a page to draw on."""
    from evidentia.serve.server import run

    run(models or [], host, port, workers)
