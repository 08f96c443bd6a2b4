"""How long a command still takes, by how long what is done has taken."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

MINUTE = 60
HOUR = 3600


def in_words(seconds: float) -> str:
    """A time as people say it: 40 s, 3 min, 2 h 10 min."""
    if seconds < MINUTE:
        return f"{max(1, math.ceil(seconds))} s"
    minutes = math.ceil(seconds / MINUTE)
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


class TimeLeft:
    """The time left of work whose steps take about as long as each other.

    Args:
        clock: Function that gives seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = 0.0
        self._done_at_start: float | None = None

    def text(self, done: float, total: float, step: float = 0.0, seconds: float = 0.0) -> str:
        """What is left in words, to be put behind a line; empty while nothing is known, and at the end.

        What was done before, by an earlier run that was stopped or to prepare, does not count: the time is
        taken from the first call on, and from its last step where it is said how long that was.

        Args:
            done: How much is done.
            total: How much there is.
            step: How much of it the last step did.
            seconds: How long the last step took.
        """
        now = self._clock()
        if self._done_at_start is None:
            self._done_at_start = done - step
            self._start = now - seconds
        fresh = done - self._done_at_start
        if fresh <= 0 or done >= total:
            return ""
        seconds = (now - self._start) / fresh * (total - done)
        return f", about {in_words(seconds)} left"


@dataclass(frozen=True)
class Piece:
    """A part of a study.

    Args:
        name: Its name.
        group: Pieces of one group take about as long for each epoch: those on the same data.
        epochs: How many epochs it trains; 1 where it only measures.
    """

    name: str
    group: str
    epochs: float


class StudyTimeLeft:
    """The time left of a study: by the seconds that an epoch takes, with all that is measured after it.

    Groups of which nothing is known yet count as those of which something is.

    Args:
        pieces: What is to be done.
        clock: Function that gives seconds.
    """

    def __init__(self, pieces: Iterable[Piece], clock: Callable[[], float] = time.monotonic) -> None:
        self._pieces = {piece.name: piece for piece in pieces}
        self._clock = clock
        self._last = clock()
        self._done = dict.fromkeys(self._pieces, 0.0)
        self._seconds: dict[str, float] = {}

    def epoch(self, name: str) -> None:
        """One more epoch of a piece is done; that of a training it needs counts as time alone."""
        piece = self._pieces.get(name) or self._pieces.get(name.partition(",")[0])
        if piece is None:
            return
        self._pass_time(piece.group)
        if name in self._pieces:
            self._done[name] = min(self._done[name] + 1, piece.epochs)

    def finished(self, name: str) -> None:
        """A piece is trained and measured."""
        piece = self._pieces.get(name)
        if piece is not None:
            self._pass_time(piece.group)
            self._done[name] = piece.epochs

    def text(self) -> str:
        """What is left in words, to be put behind a line; empty while nothing is known, and at the end."""
        seconds = self._seconds_left()
        if not seconds:
            return ""
        return f", about {in_words(seconds)} left in all"

    def _pass_time(self, group: str) -> None:
        now = self._clock()
        self._seconds[group] = self._seconds.get(group, 0.0) + now - self._last
        self._last = now

    def _seconds_left(self) -> float:
        done: dict[str, float] = {}
        left: dict[str, float] = {}
        for name, piece in self._pieces.items():
            done[piece.group] = done.get(piece.group, 0.0) + self._done[name]
            left[piece.group] = left.get(piece.group, 0.0) + piece.epochs - self._done[name]
        if not any(done.values()):
            return 0.0
        usual = sum(self._seconds.values()) / sum(done.values())
        total = 0.0
        for group, epochs in left.items():
            rate = usual
            if done[group]:
                rate = self._seconds.get(group, 0.0) / done[group]
            total += rate * epochs
        return total
