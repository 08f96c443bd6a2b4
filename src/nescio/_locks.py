"""Locks: of several processes, one at a time. Torch is not waited for by this import."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def one_at_a_time(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold a lock file while the block runs. on_wait: called once where another process has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        on_wait()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
