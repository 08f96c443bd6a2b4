"""What a fetch tells of itself: a moving line on a terminal, one plain line where there is none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class _Amount(DownloadColumn):
    """Bytes, once there are any."""

    def render(self, task: Task) -> Text:
        return super().render(task) if task.completed else Text()


class Report:
    """One fetch on the terminal: its stage and its bytes."""

    def __init__(self, progress: Progress, what: str) -> None:
        self._progress, self._what = progress, what
        self._task = progress.add_task(what, total=None)

    def stage(self, name: str) -> None:
        """Something new begins, with no bytes to count yet."""
        self._progress.remove_task(self._task)
        self._task = self._progress.add_task(f"{self._what}: {name}", total=None)

    def expect(self, total: int) -> None:
        """So many bytes are to come; 0 where that is not known."""
        self._progress.update(self._task, total=total or None)

    def update(self, amount: float) -> None:
        """So many more bytes are here."""
        self._progress.advance(self._task, amount)


@contextmanager
def reporting(what: str) -> Iterator[Report]:
    """Show what is being fetched while the block runs; on a terminal it disappears at the end."""
    console = Console(stderr=True)
    if not console.is_terminal:
        say(f"fetching {what}")
    columns = (
        *(SpinnerColumn(), TextColumn("{task.description}", markup=False)),
        *(BarColumn(), _Amount(), TimeRemainingColumn()),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield Report(progress, what)


def say(line: str) -> None:
    """One line for people, beside the output."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
