"""`nescio methods`: what can be trained, what it costs, where it comes from."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from nescio.cli.console import print_table


def methods(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """List the methods: what each is, its cost in forward passes, its settings, its paper."""
    from nescio.methods import METHODS, make_method, method_to_dict

    known = [make_method(name) for name in METHODS]
    rows = [
        {
            "method": one.name,
            "what it is": one.about,
            "passes": one.passes,
            "trainings": one.trainings,
            "settings": {name: value for name, value in method_to_dict(one).items() if name != "name"},
            "paper": one.paper,
        }
        for one in known
    ]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    columns = ("method", "what it is", "passes", "trainings", "paper")
    print_table(columns, ([str(row[name]) for name in columns] for row in rows))
    typer.echo("Settings, with their defaults:")
    for row in rows:
        typer.echo(f"  {row['method']:9} {_in_words(row['settings'])}")
    typer.echo("\nTrain one: nescio train DATA --out RUN --method NAME --set SETTING=VALUE")


def _in_words(settings: object) -> str:
    assert isinstance(settings, dict)
    return ", ".join(f"{name}={'by rule' if value is None else value}" for name, value in settings.items())
