"""A progress bar on the terminal, and nothing where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn


class Bar:
    """What a long operation tells of itself; shaped as pooch's downloader expects."""

    def __init__(self, progress: Progress, label: str) -> None:
        self._progress = progress
        self._task = progress.add_task(label, total=None)

    @property
    def total(self) -> float | None:
        """All there is to do; None while unknown."""
        return self._progress.tasks[self._task].total

    @total.setter
    def total(self, value: float) -> None:
        # A server that does not tell the length says 0: the bar then only moves.
        self._progress.update(self._task, total=value or None)

    def update(self, amount: float) -> None:
        """So much more is done."""
        self._progress.advance(self._task, amount)

    def reset(self) -> None:
        """Start over."""
        self._progress.reset(self._task)

    def close(self) -> None:
        """Nothing to release: the bar goes with its context."""


@contextmanager
def bar(label: str) -> Iterator[Bar]:
    """Show a bar while the block runs; it disappears at the end."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield Bar(progress, label)
