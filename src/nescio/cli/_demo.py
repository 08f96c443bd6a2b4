"""`nescio demo`: the whole idea on real data, in about two minutes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from nescio.cli._console import epoch_progress, print_table, require_folder


def demo(
    out: Annotated[Path, typer.Option(help="The folder for the report and both models.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Another number, another training.")] = 0,
    epochs: Annotated[int | None, typer.Option(hidden=True)] = None,
    samples: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Train an evidential and a softmax network on digits, show them letters, and write a report."""
    from nescio.demo._run import demo_inputs, demo_settings, run_demo
    from nescio.reports._page import require_extras

    require_extras()
    from nescio.demo._report import table, write_report

    start = time.perf_counter()
    settings = demo_settings(seed, epochs)
    inputs = demo_inputs(samples)
    require_folder(out)
    typer.echo(
        f"Training two networks on {len(inputs.train):,} real digits, {settings.epochs} epochs each: "
        "one evidential, one with softmax."
    )
    assert settings.epochs is not None  # the demo writes them out
    with epoch_progress(settings.epochs, "evidential", "softmax") as report:
        outcome = run_demo(settings, inputs, report)
    path = write_report(outcome, out)
    rows = [(row.label, row.evidential, row.softmax) for row in table(outcome)]
    print_table(("", "evidential", "softmax"), rows)
    typer.echo(f"Done in {time.perf_counter() - start:.0f} s. Open in a browser: {path.resolve().as_uri()}")
    typer.echo("Draw and watch: nescio serve, then open http://127.0.0.1:8000")
    typer.echo(f"Ask the model:  nescio predict {out / 'edl.safetensors'} PICTURE")
    typer.echo("Train your own: nescio train --help")
