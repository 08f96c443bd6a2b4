"""`nescio methods`: what can be trained, what it costs, where it comes from."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from nescio.cli._console import print_table


def methods(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """List the methods: what each is, its cost in forward passes, its settings, its paper."""
    from nescio.methods import METHODS, make_method, method_to_dict

    rows: list[dict[str, Any]] = []
    for name in METHODS:
        method = make_method(name)
        settings = method_to_dict(method)
        del settings["name"]
        rows.append(
            {
                "method": method.name,
                "what it is": method.about,
                "passes": method.passes,
                "trainings": method.trainings,
                "settings": settings,
                "paper": method.paper,
            }
        )
    if as_json:
        typer.echo(json.dumps(rows))
        return
    columns = ("method", "what it is", "passes", "trainings", "paper")
    cells = []
    for row in rows:
        cells.append([str(row[column]) for column in columns])
    print_table(columns, cells)
    typer.echo("Settings, with their defaults:")
    for row in rows:
        typer.echo(f"  {row['method']:9} {_in_words(row['settings'])}")
    typer.echo("\nTrain one: nescio train DATA --out RUN --method NAME --set SETTING=VALUE")


def _in_words(settings: dict[str, Any]) -> str:
    words = []
    for name, value in settings.items():
        shown = "by rule" if value is None else value
        words.append(f"{name}={shown}")
    return ", ".join(words)
