"""`nescio serve`: opinions over HTTP, and the page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nescio.errors import MissingExtraError


def serve(
    models: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[MODEL]...", help="Model files. Default: the bundled pair."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen at; 0.0.0.0 is every one.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, help="So many processes.")] = 1,
) -> None:
    """Serve models over HTTP, with a page to draw on."""
    try:
        from nescio.serve.server import run
    except ModuleNotFoundError as error:
        raise MissingExtraError("serve", error.name or "a package") from error
    run(models or [], host, port, workers, _say)


def _say(address: str, names: list[str]) -> None:
    typer.echo(f"Serving {', '.join(names)} at {address} (the API: {address}/docs). Ctrl+C ends it.")
