"""The `nescio` command. Commands import what they need when they run: help answers at once."""

from __future__ import annotations

import os
import re
import signal
import sys
import traceback
import warnings
from typing import Annotated, Any

import typer

from nescio import __version__
from nescio.cli import _data as data
from nescio.cli._demo import demo
from nescio.cli._evaluate import evaluate
from nescio.cli._export import export
from nescio.cli._help import Command, Group, usage_message
from nescio.cli._methods import methods
from nescio.cli._posthoc import calibrate, sets, threshold
from nescio.cli._predict import predict, score
from nescio.cli._reproduce import ManyNames, reproduce
from nescio.cli._serve import serve
from nescio.cli._study import study
from nescio.cli._train import train
from nescio.errors import NescioError, NescioWarning

INTERRUPTED = 130

EXAMPLES = {
    "demo": ["nescio demo", "nescio demo --out report --seed 1"],
    "methods": ["nescio methods", "nescio methods --json"],
    "train": [
        "nescio train digits --out run",
        "nescio train photos/ --out run --fine-tune --augment light --patience 5",
        "nescio train table.csv --out run --label species --method ensemble --set num_members=3",
    ],
    "predict": [
        "nescio predict run new/",
        "nescio predict run measurements.csv --json",
        "nescio predict run photos/ --out opinions.parquet",
        "nescio predict a=run-a b=run-b picture.png",
    ],
    "evaluate": ["nescio evaluate run --data digits --ood letters"],
    "calibrate": ["nescio calibrate run --training photos/ --data held-out"],
    "threshold": ["nescio threshold run --data held-out --max-error 0.01"],
    "sets": ["nescio sets run --data held-out --coverage 0.95 --by-class"],
    "export": ["nescio export run --onnx model.onnx"],
    "serve": ["nescio serve", "nescio serve run --port 9000", "nescio serve a=run-a b=run-b"],
    "reproduce": ["nescio reproduce", "nescio reproduce --preset paper --only table1 --methods edl l2"],
    "study": ["nescio study successors --only letter clinc150 --seeds 1", "nescio study successors --on ray"],
    "list": ["nescio data list"],
    "fetch": ["nescio data fetch mnist cifar10"],
    "show": ["nescio data show digits", "nescio data show photos/ --out sheet.png"],
}
UsageError = typer.BadParameter.__base__  # which typer itself does not give by name

app = typer.Typer(
    help='Neural classifiers that can say "I do not know".',
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (
    demo,
    methods,
    train,
    predict,
    evaluate,
    calibrate,
    threshold,
    sets,
    export,
    serve,
):
    app.command(cls=Command, epilog="\n".join(EXAMPLES[command.__name__]))(command)
app.command(cls=ManyNames, epilog="\n".join(EXAMPLES["reproduce"]))(reproduce)
app.command(cls=ManyNames, epilog="\n".join(EXAMPLES["study"]))(study)
app.command(hidden=True, context_settings={"ignore_unknown_options": True})(score)
for info in data.app.registered_commands:
    info.cls = Command
    info.epilog = "\n".join(EXAMPLES[info.name or info.callback.__name__])  # type: ignore[union-attr]
app.add_typer(data.app, name="data", cls=Group)


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
        code = app(standalone_mode=False, prog_name="nescio")
    except UsageError as error:  # type: ignore[misc]
        sys.exit(_tell_usage_error(error))
    except Exception as error:  # noqa: BLE001 - whatever it is, the user gets one line, not a traceback
        if _is_closed_pipe(error):
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
        elif "--debug" in sys.argv:
            traceback.print_exc()
        else:
            typer.echo(f"error: {_in_words(error)}", err=True)
        sys.exit(1)
    if code == INTERRUPTED:
        typer.echo("interrupted", err=True)
    sys.exit(code or 0)


def _tell_usage_error(error: Any) -> int:
    """Say what is wrong with the command as it was typed; without any word, show the help."""
    if not error.format_message().strip() or type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.ctx.get_help() if error.ctx is not None else "")
    else:
        typer.echo(f"error: {usage_message(error, sys.argv[1:])}", err=True)
    return int(error.exit_code)


def _is_closed_pipe(error: Exception) -> bool:
    """Whether who reads the output has gone, as in `nescio data list | head -1`."""
    return isinstance(error, BrokenPipeError)


def _by_option(message: str) -> str:
    """A message that names an argument, with the option's name where it was typed."""
    for word in sys.argv[1:]:
        option = word.partition("=")[0]
        if not option.startswith("--"):
            continue
        name = option.removeprefix("--").replace("-", "_")
        if "_" in name:
            message = re.sub(rf"\b{name}\b", option, message)
        elif re.match(rf"{name}\b", message):
            message = option + message[len(name) :]
    return message


def _in_words(error: Exception) -> str:
    if isinstance(error, NescioError | OSError):
        return _by_option(str(error))
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first} (a bug; --debug shows where)"
