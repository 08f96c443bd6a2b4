"""What commands share: tables and progress on a terminal, and a folder to write to."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from nescio.cli._time_left import TimeLeft

UNFOLDED_WIDTH = 100_000
SECONDS_BETWEEN_LINES = 5.0
EVER = 1e9  # seconds


def print_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """A plain table; where it goes to a file or to another program, no line is folded."""
    from rich import box
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    columns = [Column(name, overflow="fold") for name in header]
    table = Table(*columns, box=box.SIMPLE_HEAD)
    for row in rows:
        cells = [Text(cell) for cell in row]  # as it is: a name in brackets is no markup
        table.add_row(*cells)
    console = Console()
    if not console.is_terminal:
        console = Console(width=UNFOLDED_WIDTH)
    console.print(table)


@contextmanager
def epoch_progress(
    epochs: int, *names: str, members: int = 1, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[str, dict[str, float]], None]]:
    """A bar for each training with its last figures; a line for each epoch where there is no terminal.

    members: how many networks a training trains, so many epochs each. clock: function that gives seconds.
    What it gives takes a training's name and the metrics of an epoch.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from nescio.training._runtime import is_first_process

    console = Console(stderr=True)
    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[last]}"),
    ]
    speaks = is_first_process()
    has_bar = speaks and console.is_terminal
    # Rich forgets what is older than half a minute, which an epoch may be.
    bars = Progress(*columns, console=console, disable=not has_bar, speed_estimate_period=EVER)
    left = {}
    with bars as progress:
        tasks = {}
        for name in names:
            left[name] = TimeLeft(clock)
            tasks[name] = progress.add_task(name, total=epochs * members, last="")

        def report(name: str, metrics: dict[str, float]) -> None:
            figures = (
                f"loss {metrics['loss']:.3f}  accuracy {metrics['accuracy']:.3f}  "
                f"uncertainty {metrics['uncertainty']:.3f}"
            )
            done = (metrics.get("member", 1) - 1) * epochs + metrics["epoch"]
            progress.update(tasks[name], completed=done, last=figures)
            if speaks and not has_bar:
                time_left = left[name].text(done, epochs * members, step=1, seconds=metrics["seconds"])
                typer.echo(f"{name}: epoch {done} of {epochs * members}: {figures}{time_left}", err=True)

        yield report


def counting_progress(what: str, clock: Callable[[], float] = time.monotonic) -> Callable[[int, int], None]:
    """A function that says how many of something are done, and the time left: a line every few seconds.

    One after the other it may count several things, such as the training data and what is held out.
    clock: function that gives seconds.
    """
    from nescio.training._runtime import is_first_process

    speaks = is_first_process()
    started = clock()
    last_line = started
    left = TimeLeft(clock)
    is_over = False

    def report(done: int, total: int) -> None:
        nonlocal started, last_line, left, is_over
        now = clock()
        if is_over:
            started = last_line
            left = TimeLeft(clock)
        is_over = done == total
        is_due = done == total or now - last_line >= SECONDS_BETWEEN_LINES
        time_left = left.text(done, total)
        if speaks and is_due:
            last_line = now
            typer.echo(f"{what}: {done:,} of {total:,}, {now - started:.0f} s{time_left}", err=True)

    return report


@contextmanager
def logs_kept_quiet(up_to: int = logging.WARNING) -> Iterator[None]:
    """Without what libraries log about themselves; their errors are raised, and shown, all the same."""
    before = logging.root.manager.disable
    logging.disable(up_to)
    try:
        yield
    finally:
        logging.disable(before)


def require_folder(out: Path) -> None:
    """Refuse a folder that results can't be written to, before a training and not after it."""
    from nescio.errors import InputError

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out must be a folder to write to, got {out}: {error.strerror}") from error
    if not os.access(out, os.W_OK):
        raise InputError(f"--out must be a folder to write to, got {out}: not allowed to")
