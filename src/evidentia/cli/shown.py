"""What commands show on a terminal: tables, and the progress of a training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager


def print_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """A plain table."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(*header, box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


@contextmanager
def epochs_shown(epochs: int) -> Iterator[Callable[[dict[str, float]], None]]:
    """A bar with the last epoch's figures while the training runs; nothing where there is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("epoch"), MofNCompleteColumn(), BarColumn(), TextColumn("{task.description}"))
    with Progress(
        *columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("", total=epochs)

        def report(metrics: dict[str, float]) -> None:
            names = ("loss", "accuracy", "uncertainty")
            text = "  ".join(f"{name} {metrics[name]:.4f}" for name in names)
            progress.update(task, completed=metrics["epoch"], description=text)

        yield report
