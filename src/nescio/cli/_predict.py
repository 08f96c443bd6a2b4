"""`nescio predict`: what a model says of pictures, texts and rows, as a table, JSON, CSV or a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nescio.cli._console import EVER, counting_progress, print_table
from nescio.errors import InputError

if TYPE_CHECKING:
    from nescio.inference.model import TrainedModel

_SHOWN_FAILURES = 3
_SHOWN_CLASSES = 5  # of a set, in a table


def predict(
    model: Annotated[str, typer.Argument(help="A model file or the folder of a run, or NAME=PATH.")],
    files: Annotated[
        list[str],
        typer.Argument(
            help="Pictures, texts, folders of them, .npz and .npy files, and tables (.csv, .tsv, .jsonl, "
            ".parquet), whose rows count from 1. "
            "Before them, more models as NAME=PATH, to be asked side by side."
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, with the probabilities of all classes.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Comma-separated, with a header.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write .parquet, .csv or .jsonl instead; stopped and started again, it goes on."),
    ] = None,
    on: Annotated[str, typer.Option(help="With --out: here, or ray for the machines of a cluster.")] = "here",
) -> None:
    """Say for each picture, text or row what it is, or "I do not know".

    What can't be read gets a line with the error, the rest is answered, and the code is 1.
    """
    from nescio.inference._named_paths import is_named_model, named_paths
    from nescio.inference.model import TrainedModel

    if sum((as_json, as_csv, out is not None)) > 1:
        raise InputError("--json, --csv and --out are three forms of the same; ask for one")
    models = [model]
    while files and is_named_model(files[0]):
        models.append(files[0])
        files = files[1:]
    if not files:
        raise InputError("say what to predict: pictures, texts, folders, .npz, .npy or .csv files")
    if out is not None:
        _predict_to_file(named_paths(models), files, out, on)
        return
    if on != "here":
        raise InputError("--on goes with --out, which names the file to write")
    paths = named_paths(models)
    loaded = {name: TrainedModel.load(path) for name, path in paths.items()}
    records = _records_of(loaded, files)
    _print_records(records, as_json, as_csv)
    if not as_json and not as_csv:
        for name, path in paths.items():
            _say_that_there_is_no_rule(path, loaded[name])
    if any(record["error"] is not None for record in records):
        raise typer.Exit(1)


def _say_that_there_is_no_rule(path: Path, model: TrainedModel) -> None:
    """Without a rule what is refused is a convention and promises nothing: not what people expect."""
    from nescio.inference.model import DEFAULT_MAX_UNCERTAINTY

    if model.rule is None:
        typer.echo(
            f'{path} has no rule of its own yet: it says "I do not know" from an uncertainty of '
            f"{DEFAULT_MAX_UNCERTAINTY} on, which promises nothing. To bound its errors: nescio threshold "
            f"{path} --data held-out --max-error 0.05. To answer the surest nine in ten: --coverage 0.9",
            err=True,
        )


def _records_of(models: dict[str, TrainedModel], files: list[str]) -> list[dict[str, Any]]:
    """Of all files; with several models, all of the first and then of the next, each with its name."""
    from nescio.data import open_sources
    from nescio.inference.records import iterate_records, takes_texts

    source = open_sources(files, takes_texts=all(takes_texts(model) for model in models.values()))
    records: list[dict[str, Any]] = []
    for name, trained in models.items():
        for record in iterate_records(trained, source):
            records.append(record if len(models) == 1 else {"model": name, **record})
    return records


def _predict_to_file(models: dict[str, Path], files: list[str], out: Path, on: str) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from nescio.inference.bulk import predict_to_file

    if len(models) > 1:
        raise InputError("--out takes one model; call it once for each")
    (path,) = models.values()
    console = Console(stderr=True)
    columns = (TextColumn("predicting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    has_bar = console.is_terminal
    bars = Progress(*columns, console=console, disable=not has_bar, speed_estimate_period=EVER)
    say = counting_progress("predicted")
    with bars as progress:
        task = progress.add_task("predicting", total=None)

        def show(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)
            if not has_bar and done < total:
                say(done, total)

        outcome = predict_to_file(path, files, out, on=on, report=show, on_wait=console.print)
    unread = f", {outcome.errors:,} of them without an answer (column error)" if outcome.errors else ""
    typer.echo(f"{out}: {outcome.inputs:,} inputs{unread}")
    if outcome.errors:
        raise typer.Exit(1)


def _print_records(records: list[dict[str, Any]], as_json: bool, as_csv: bool) -> None:
    from nescio.inference.records import to_csv, to_json_lines

    if as_json:
        typer.echo(to_json_lines(records), nl=False)
        return
    if as_csv:
        typer.echo(to_csv(records), nl=False)
        return
    if len(records) > _SHOWN_FAILURES and all(record["error"] is not None for record in records):
        _print_failures(records)
        return
    header = ["name", "answer", "best", "probability", "uncertainty"]
    if "model" in records[0]:
        header = ["model", *header]
    if any(record["p_value"] is not None for record in records):
        header = [*header, "p_value"]
    if any(record["set"] is not None for record in records):
        header = [*header, "set"]
    if any(record["error"] is not None for record in records):
        header = [*header, "error"]
    rows = []
    for record in records:
        cells = []
        for name in header:
            cells.append(_set_cell(record["set"]) if name == "set" else _cell(record[name]))
        rows.append(cells)
    print_table(header, rows)


def _print_failures(records: list[dict[str, Any]]) -> None:
    """Where nothing could be answered: how many there are, and the first few."""
    typer.echo(f"none of the {len(records):,} inputs can be answered; the first {_SHOWN_FAILURES}:")
    for record in records[:_SHOWN_FAILURES]:
        typer.echo(f"  {record['name']}: {record['error']}")


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _set_cell(members: list[str] | None) -> str:
    """The classes of a set; a long one is cut."""
    if members is None:
        return ""
    if not members:
        return "none: unlike all classes"
    from nescio._checks import listed

    return listed(members, _SHOWN_CLASSES)


def score(words: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
    """Say what this command is called now."""
    raise InputError("score is now a part of predict: nescio predict MODEL FILES... --out FILE.parquet")
