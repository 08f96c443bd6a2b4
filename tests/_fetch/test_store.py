"""Fetching: what is delivered, verified and kept, and what every failure leaves behind."""

import errno
import gzip
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
from filelock import FileLock
from tests.data.made import CONTENT, Fixed, entry, left_in
from tests.processes import environment

from nescio._fetch import store
from nescio._fetch.store import fetch, is_cached, state
from nescio._fetch.unpack import gzip_file, tar_members
from nescio.errors import DataError, FetchError, InputError, NescioWarning


def test_verified_files_are_kept_and_found_again(empty_cache):
    source = Fixed()
    assert not is_cached(entry(source))
    home = fetch(entry(source))
    assert (home / "file").read_bytes() == CONTENT
    fetch(entry(source))
    assert source.asked == 1
    assert left_in(empty_cache) == ["file"]


def test_the_first_source_that_has_the_right_bytes_wins(empty_cache):
    bad, good, late = Fixed(b"wrong"), Fixed(), Fixed()
    fetch(entry(bad, good, late))
    assert (bad.asked, good.asked, late.asked) == (1, 1, 0)


def test_wrong_hash_is_said_and_nothing_is_left(empty_cache):
    with pytest.raises(FetchError, match=r"a fixed source: file has another content .*SHA-256"):
        fetch(entry(Fixed(b"x" * len(CONTENT))))
    assert left_in(empty_cache) == []


def test_the_message_lists_all_that_was_tried_and_what_to_do(empty_cache, tmp_path):
    made = entry(
        Fixed(error=DataError("can't be reached"), label="one"),
        Fixed(error=DataError("not installed"), label="two"),
        archives={"made.tar.gz": tar_members},
        hint="use another",
    )
    with pytest.raises(FetchError) as caught:
        fetch(made, data_dir=tmp_path)
    assert str(caught.value).splitlines() == [
        "made can't be had. Tried:",
        f"  - folder {tmp_path}: it holds none of file, made.tar.gz",
        "  - one: can't be reached",
        "  - two: not installed",
        "What to do: put made.tar.gz into a folder, or into its sub-folder made/, "
        "and name that folder with --data-dir or NESCIO_DATA.",
        "Or use another.",
    ]


def test_without_downloading_no_source_is_asked(empty_cache):
    source = Fixed()
    with pytest.raises(FetchError, match="downloading is off"):
        fetch(entry(source), download=False)
    assert source.asked == 0
    assert not (empty_cache / "made").exists()


def test_without_downloading_what_needs_no_network_is_asked(empty_cache):
    fetch(entry(Fixed(), Fixed(needs_network=False)), download=False)
    assert left_in(empty_cache) == ["file"]


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("place", ["", "made"])
def test_a_folder_given_holds_files_packed_or_not(empty_cache, tmp_path, monkeypatch, packed, place):
    given = tmp_path / "given"
    (given / place).mkdir(parents=True)
    if packed:
        (given / place / "file.gz").write_bytes(gzip.compress(CONTENT))
    else:
        (given / place / "file").write_bytes(CONTENT)
    monkeypatch.setenv("NESCIO_DATA", str(given))
    never = Fixed()
    fetch(entry(never, archives={"file.gz": gzip_file}, subfolders=("made",)))
    assert never.asked == 0
    assert left_in(empty_cache) == ["file"]


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("by_variable", [True, False])
def test_a_folder_given_that_is_not_there_is_refused(empty_cache, tmp_path, monkeypatch, cached, by_variable):
    if cached:
        fetch(entry(Fixed()))
    nowhere = tmp_path / "nowhere"
    if by_variable:
        monkeypatch.setenv("NESCIO_DATA", str(nowhere))
    named = "NESCIO_DATA" if by_variable else "data_dir"
    with pytest.raises(InputError, match=f"{named} must name a folder; there is no folder {nowhere}"):
        fetch(entry(Fixed()), None if by_variable else nowhere)


def test_a_wrong_file_in_the_folder_given_is_told_even_if_another_source_works(empty_cache, tmp_path):
    (tmp_path / "file").write_bytes(b"wrong")
    expected = r"folder .*: file has another content .*; made comes from a fixed source instead"
    with pytest.warns(NescioWarning, match=expected):
        fetch(entry(Fixed()), tmp_path)
    assert left_in(empty_cache) == ["file"]


def test_a_folder_given_without_the_file_is_passed_over_in_silence(empty_cache, tmp_path):
    given = tmp_path / "given"
    given.mkdir()
    fetch(entry(Fixed()), given)
    assert left_in(empty_cache) == ["file"]


def damage(home):
    (home / "file").write_bytes(bytes(len(CONTENT)))


def test_cached_files_are_hashed_only_when_asked(empty_cache):
    source = Fixed()
    damage(fetch(entry(source)))
    fetch(entry(source))
    assert source.asked == 1
    with pytest.warns(NescioWarning, match=r"made/file is damaged; it is fetched anew"):
        home = fetch(entry(source), recheck=True)
    assert (source.asked, (home / "file").read_bytes()) == (2, CONTENT)
    fetch(entry(source), recheck=True)
    assert source.asked == 2


def test_a_damaged_file_that_cannot_be_had_again_is_gone(empty_cache):
    damage(fetch(entry(Fixed())))
    with pytest.warns(NescioWarning), pytest.raises(FetchError, match="can't be had"):
        fetch(entry(), recheck=True)
    assert left_in(empty_cache) == []


@pytest.mark.parametrize(
    "error", [KeyError("x"), RecursionError("too deep"), MemoryError(), TypeError("two\nlines")]
)
def test_a_source_may_fail_in_any_way(empty_cache, error):
    good = Fixed()
    fetch(entry(Fixed(error=error), good))
    assert good.asked == 1
    shutil.rmtree(empty_cache)
    with pytest.raises(FetchError, match=f"a fixed source: {type(error).__name__}") as caught:
        fetch(entry(Fixed(error=error)))
    assert "lines" not in str(caught.value)
    assert left_in(empty_cache) == []


def test_an_interruption_is_no_failure_of_a_source(empty_cache):
    later = Fixed()
    with pytest.raises(KeyboardInterrupt):
        fetch(entry(Fixed(error=KeyboardInterrupt()), later))
    assert later.asked == 0
    assert not (empty_cache / "made").exists()


def test_where_a_data_set_is(empty_cache, tmp_path, monkeypatch):
    assert state(entry(Fixed())) == "to fetch"
    assert state(entry(Fixed(needs_network=False))) == "comes installed"
    given = tmp_path / "given"
    given.mkdir()
    monkeypatch.setenv("NESCIO_DATA", str(given))
    assert state(entry(Fixed())) == "to fetch"
    (given / "file").touch()
    assert state(entry(Fixed())) == "in NESCIO_DATA"
    fetch(entry(Fixed(needs_network=False)), tmp_path)
    assert state(entry(Fixed())) == "here"


def test_room_is_looked_for_before_any_source_is_asked(empty_cache, monkeypatch):
    free = shutil.disk_usage("/")._replace(free=2_000_000)
    monkeypatch.setattr(store.shutil, "disk_usage", lambda _: free)
    fetch(entry(Fixed(), name="small"))
    monkeypatch.setattr(store, "ROOM_FACTOR", 1000)
    source = Fixed()
    with pytest.raises(FetchError, match=r"no room .* needs about 16 MB in .*, 2 MB are free; make room or"):
        fetch(entry(source))
    assert source.asked == 0
    assert not (empty_cache / "made").exists()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_no_room_on_the_disk(empty_cache, code):
    full, next_one = Fixed(error=OSError(code, "no room")), Fixed()
    with pytest.raises(FetchError, match=r"no room on the disk for made: .*make room or set NESCIO_CACHE"):
        fetch(entry(full, next_one))
    assert next_one.asked == 0
    assert left_in(empty_cache) == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs /sys, which nobody can write")
def test_a_cache_that_cannot_be_written(monkeypatch):
    monkeypatch.setenv("NESCIO_CACHE", "/sys/nescio")
    with pytest.raises(FetchError, match="cache folder /sys/nescio/made can't be written; set NESCIO_CACHE"):
        fetch(entry(Fixed()))


def test_a_cache_below_a_file(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("NESCIO_CACHE", str(tmp_path / "file"))
    with pytest.raises(FetchError, match="can't be written"):
        fetch(entry(Fixed()))


def test_a_file_where_the_folder_should_be(empty_cache):
    empty_cache.mkdir()
    (empty_cache / "made").touch()
    with pytest.raises(FetchError, match="made can't be written"):
        fetch(entry(Fixed()))


def test_a_cache_in_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NESCIO_CACHE", "~/mine")
    assert fetch(entry(Fixed())) == tmp_path / "mine" / "made"


def test_locks_are_kept_apart(empty_cache):
    home = fetch(entry(Fixed()))
    assert [path.name for path in home.iterdir()] == ["file"]
    assert [path.name for path in (empty_cache / ".locks").iterdir()] == ["made.lock"]


def test_who_waits_for_another_process_is_told(empty_cache, capsys, monkeypatch):
    (empty_cache / ".locks").mkdir(parents=True)
    taken, told = threading.Event(), threading.Event()
    say = store.say

    def say_and_let_go(line):
        say(line)
        told.set()

    def other():
        with FileLock(empty_cache / ".locks" / "made.lock"):
            taken.set()
            told.wait(60)

    monkeypatch.setattr(store, "say", say_and_let_go)
    thread = threading.Thread(target=other)
    thread.start()
    taken.wait()
    fetch(entry(Fixed()))
    thread.join()
    assert "another process is fetching made; waiting\n" in capsys.readouterr().err


class Slow(Fixed):
    def deliver(self, wanted, folder, report):
        (folder.parent.parent / f"asked-{os.getpid()}").touch()
        time.sleep(0.5)
        super().deliver(wanted, folder, report)


def _fetch_slowly(cache):
    os.environ["NESCIO_CACHE"] = cache
    fetch(entry(Slow()))


def test_two_processes_fetch_once(empty_cache):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_fetch_slowly, args=(str(empty_cache),)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    names = left_in(empty_cache)
    assert "file" in names
    assert sum(name.startswith("asked-") for name in names) == 1


INTERRUPTED = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits that it is ignored
from tests.data.made import entry
from nescio.cli import app
from nescio._fetch import store
from nescio.data import _catalog as catalog
class Endless:
    label, needs_network = "endless", True
    def deliver(self, wanted, folder, report):
        (folder / "file").write_bytes(b"half")
        print("busy", flush=True)
        time.sleep(60)
catalog.ENTRIES = {"made": entry(Endless())}
sys.argv = ["nescio", "data", "fetch", "made"]
app.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_fetch_leaves_nothing_to_trip_over(empty_cache, number):
    command = [sys.executable, "-c", INTERRUPTED]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment())
    with process:
        assert process.stdout.readline() == "busy\n"
        process.send_signal(number)
        errors = process.stderr.read()
    said = {signal.SIGINT: (130, "interrupted\n"), signal.SIGTERM: (143, "")}
    if number in said:
        code, last = said[number]
        assert (process.returncode, errors) == (code, f"fetching made from endless\n{last}")
        assert left_in(empty_cache) == []
        assert not (empty_cache / "made").exists()
    assert not is_cached(entry())
    fetch(entry(Fixed()))
    assert left_in(empty_cache) == ["file"]


@pytest.fixture(scope="module")
def folders_of_a_module():
    """What a fixture sees that is made before any test of its module."""
    return store.cache_dir(), store.given_dir(None)


def test_what_several_tests_share_is_made_with_the_cache_of_the_tests(folders_of_a_module, tmp_path_factory):
    cache, given = folders_of_a_module
    assert tmp_path_factory.getbasetemp() in cache.parents
    assert given is None


def test_the_default_cache_is_the_systems(monkeypatch):
    monkeypatch.delenv("NESCIO_CACHE")
    assert store.cache_dir().name == "nescio"


def test_without_a_home_folder_it_says_what_to_set(monkeypatch):
    monkeypatch.delenv("NESCIO_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as it is for a user without a home
    with pytest.raises(
        InputError, match=r"no home folder for the cache .* name a folder for it with NESCIO_CACHE"
    ):
        store.cache_dir()
