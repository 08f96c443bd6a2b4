import ctypes
import sys
from pathlib import Path

import pytest

from nescio.serve import _memory
from nescio.serve._memory import release_memory


def resident():
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator is what is tested")
def test_what_is_freed_between_things_that_stay_is_given_back():
    library = ctypes.CDLL(None)
    if not hasattr(library, "malloc_trim"):
        pytest.skip("another C library than glibc")
    blocks = []
    for _ in range(1000):
        # Filled, as what is never written to takes no memory.
        blocks.append(bytearray(b"1") * (64 * 1024))
        blocks.append(bytearray(b"1") * 2048)  # stays, and keeps the end of the heap where it is
    staying = blocks[1::2]
    before = resident()
    del blocks
    release_memory()
    assert before - resident() > 50 * 1000 * 1000  # of 64
    assert len(staying) == 1000


@pytest.mark.parametrize("library", [None, object()], ids=["none", "without malloc_trim"])
def test_where_the_c_library_can_not_nothing_is_done(monkeypatch, library):
    asked = []
    monkeypatch.setattr(_memory, "_c_library", lambda: asked.append(library) or library)
    release_memory()
    assert asked == [library]


def test_a_system_without_such_a_library_has_none(monkeypatch):
    def refuse(_):
        raise OSError("no such library")

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    assert _memory._c_library.__wrapped__() is None
