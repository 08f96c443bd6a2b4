"""Memory that is free is given back to the system."""

from __future__ import annotations

import ctypes
from functools import cache


def release_memory() -> None:
    """Give back what was freed. Where the C library can't, which glibc alone can, nothing is done.

    glibc keeps what is freed between two things that stay, and of threads beside the main one nearly all of
    it: after some large answers a process would hold as much as they took, for ever.
    """
    library = _c_library()
    if library is not None and hasattr(library, "malloc_trim"):
        library.malloc_trim(ctypes.c_size_t(0))


@cache
def _c_library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None)
    except (OSError, TypeError):  # another system than Linux
        return None
