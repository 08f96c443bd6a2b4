"""What is freed within freed_memory_kept is used again, and goes back to the kernel afterwards."""

import resource
import threading
from pathlib import Path

import pytest
import torch

from nescio import _memory
from nescio._memory import freed_memory_kept

BLOCK = 10 * 2**20  # values of four bytes: above 32 MiB, which glibc gives back at once by itself
BLOCK_BYTES = 4 * BLOCK
TIMES = 10
# A block has 20 pages of 2 MiB, where the kernel gives such, else 10,240.
FEW_PAGES = 100

needs_glibc = pytest.mark.skipif(_memory._glibc() is None, reason="another C library: nothing changes there")


class RecordingLibrary:
    """A C library that keeps what it is asked."""

    def __init__(self):
        self.calls = []

    def mallopt(self, setting, value):
        self.calls.append((setting, value))

    def malloc_trim(self, pad):
        self.calls.append(("trim", pad))


@pytest.fixture
def library(monkeypatch):
    recording = RecordingLibrary()
    monkeypatch.setattr(_memory, "_glibc", lambda: recording)
    return recording


@pytest.fixture(autouse=True)
def _nothing_in_the_environment(monkeypatch):
    for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)


def new_pages():
    """How many pages the kernel hands out while blocks are filled and freed."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(TIMES):
        torch.ones(BLOCK)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident_bytes():
    """Memory that the process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@needs_glibc
def test_freed_memory_is_used_again():
    with freed_memory_kept():
        new_pages()  # the heap grows until the blocks have found their places
        assert new_pages() < FEW_PAGES


@needs_glibc
def test_freed_memory_goes_back_afterwards():
    with freed_memory_kept():
        blocks = [torch.ones(BLOCK) for _ in range(TIMES)]
        del blocks
        within = resident_bytes()
    assert within - resident_bytes() > TIMES / 2 * BLOCK_BYTES


KEEPING = [(-3, 2**30), (-1, 2**31 - 1)]
USUAL = [(-3, 32 * 2**20), (-1, 64 * 2**20), ("trim", 0)]


def test_what_the_library_is_asked(library):
    with freed_memory_kept():
        assert library.calls == KEEPING
    assert library.calls == KEEPING + USUAL


def test_after_an_error_too(library):
    with pytest.raises(RuntimeError), freed_memory_kept():
        raise RuntimeError
    assert library.calls == KEEPING + USUAL


def test_the_first_of_two_that_ends_takes_nothing_from_the_other(library):
    def short():
        with freed_memory_kept():
            pass

    with freed_memory_kept():
        thread = threading.Thread(target=short)
        thread.start()
        thread.join()
        assert library.calls == KEEPING
    assert library.calls == KEEPING + USUAL


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MALLOC_TRIM_THRESHOLD_", "1000000"),
        ("MALLOC_MMAP_THRESHOLD_", "1000000"),
        ("GLIBC_TUNABLES", "glibc.malloc.arena_max=2:glibc.malloc.mmap_threshold=1000000"),
    ],
)
def test_what_the_environment_says_stays(library, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with freed_memory_kept():
        pass
    assert library.calls == []


def test_other_tunables_are_not_in_the_way(library, monkeypatch):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=2")
    with freed_memory_kept():
        assert library.calls == KEEPING


def test_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(_memory.platform, "libc_ver", lambda: ("", ""))
    _memory._glibc.cache_clear()
    try:
        assert _memory._glibc() is None
        with freed_memory_kept():
            assert _memory._users == 0
    finally:
        _memory._glibc.cache_clear()
