"""Memory that is used again: what glibc, the C library of most Linux systems, does with what is freed.

A block above 32 MiB comes from the kernel and goes back when it is freed, and so does free memory at the end
of the heap. The kernel clears every page that it hands out: a network with large activations spends much of
its time on getting back what it had a moment before. docs/decisions/0034.
"""

from __future__ import annotations

import ctypes
import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

# The names of settings in glibc's malloc.h.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_LARGEST_INT = 2**31 - 1
_LARGEST_KEPT_BLOCK = 2**30
# What glibc arrives at by itself as soon as a block of 32 MiB has been freed.
_USUAL_MMAP_THRESHOLD = 32 * 2**20
_USUAL_TRIM_THRESHOLD = 2 * _USUAL_MMAP_THRESHOLD

_lock = threading.Lock()
_users = 0  # blocks of code within freed_memory_kept, in all threads


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Within it, memory that is freed stays with the process, to be used again; afterwards it goes back.

    Nothing changes where the C library is another one, or where the environment says how large blocks are to
    be treated.
    """
    global _users
    libc = _glibc()
    if libc is None or _is_set_by_environment():
        yield
        return
    with _lock:
        _users += 1
        if _users == 1:
            libc.mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT_BLOCK)
            libc.mallopt(_TRIM_THRESHOLD, _LARGEST_INT)
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                libc.mallopt(_MMAP_THRESHOLD, _USUAL_MMAP_THRESHOLD)
                libc.mallopt(_TRIM_THRESHOLD, _USUAL_TRIM_THRESHOLD)
                libc.malloc_trim(0)


@lru_cache(maxsize=1)
def _glibc() -> ctypes.CDLL | None:
    if platform.libc_ver()[0] != "glibc":
        return None
    return ctypes.CDLL(None)


def _is_set_by_environment() -> bool:
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    for setting in ("mmap_threshold", "trim_threshold"):
        if f"MALLOC_{setting.upper()}_" in os.environ or f"glibc.malloc.{setting}" in tunables:
            return True
    return False
