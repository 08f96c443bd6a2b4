"""The `nescio` command. Commands import what they need when they run: help answers at once."""

from __future__ import annotations

import re
import signal
import sys
import traceback
import warnings
from typing import Annotated

import typer

from nescio import __version__
from nescio.cli import data, models
from nescio.cli.demo import demo
from nescio.cli.methods import methods
from nescio.cli.reproduce import ManyNames, reproduce
from nescio.cli.serve import serve
from nescio.errors import NescioError, NescioWarning

INTERRUPTED = 130

app = typer.Typer(
    help="Neural classifiers that know when they do not know.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (
    demo,
    methods,
    models.train,
    models.predict,
    models.evaluate,
    models.threshold,
    models.export,
    serve,
):
    app.command(cls=models.Command)(command)
app.command(cls=ManyNames)(reproduce)
app.command(hidden=True, context_settings={"ignore_unknown_options": True})(models.score)
app.add_typer(data.app, name="data")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"nescio {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """Options before the command. `main` looks for --debug itself: it must know it in an error."""


def _show_warning(message: Warning | str, category: type[Warning], *_: object) -> None:
    if issubclass(category, NescioWarning):
        typer.echo(f"warning: {message}", err=True)


def _end(number: int, _: object) -> None:
    sys.exit(128 + number)  # an exception like any other: what is temporary is removed on the way


def main() -> None:
    """Run the command line and end the process with its exit code."""
    warnings.simplefilter("always", NescioWarning)
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    signal.signal(signal.SIGTERM, _end)
    try:
        app()
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            typer.echo("interrupted", err=True)
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the user gets one line, not a traceback
        if "--debug" in sys.argv:
            traceback.print_exc()
        else:
            typer.echo(f"error: {_in_words(error)}", err=True)
        sys.exit(1)


def _by_option(message: str) -> str:
    """A message that begins with the name of an argument, with the option's name where it was typed."""
    name = re.match(r"\w*", message)
    assert name is not None
    option = "--" + name[0].replace("_", "-")
    if any(word == option or word.startswith(f"{option}=") for word in sys.argv):
        return option + message[name.end() :]
    return message


def _in_words(error: Exception) -> str:
    if isinstance(error, NescioError | OSError):
        return _by_option(str(error))
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first} (a bug; --debug shows where)"
