"""Locks: of several processes, one at a time. Torch is not waited for by this import."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

_SOMEBODY = "another process"


@contextmanager
def one_at_a_time(path: Path, on_wait: Callable[[str], None], *, keep: bool = True) -> Iterator[None]:
    """Hold a lock file while the block runs.

    on_wait: called once where another process has it, with words for who that is.
    keep: whether the file stays afterwards, for the next one.

    Raises:
        OSError: If the folder takes no such file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        _require_lock_file(path)
        on_wait(_holder(path))
        lock.acquire()
    try:
        with suppress(OSError):  # who waits is told less, that is all
            path.write_text(f"process {os.getpid()} on {platform.node()}", encoding="utf-8")
        yield
    finally:
        # While it is held: who waits sees where the file is gone, and takes a new one.
        with suppress(OSError):
            if keep:
                path.write_text("")
            else:
                path.unlink()
        lock.release()


def _require_lock_file(path: Path) -> None:
    """Make the file where it is not there.

    That a folder such as /proc takes no files looks to filelock as if another process had just removed its
    own.
    """
    if not path.exists():
        path.touch()


def _holder(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") or _SOMEBODY
    except (OSError, UnicodeDecodeError):
        return _SOMEBODY
