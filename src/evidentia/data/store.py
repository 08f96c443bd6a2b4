"""The cache of verified files, and how they get there."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pooch
from filelock import FileLock

from evidentia.data.catalog import Entry, File
from evidentia.data.sources import Folder, Source, placed_by_hand
from evidentia.errors import DataError, FetchError, MissingExtraError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
NO_WRITING = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR)


def cache_dir() -> Path:
    """EVIDENTIA_CACHE, or the place for caches on this system."""
    return Path(os.environ.get("EVIDENTIA_CACHE") or pooch.os_cache("evidentia"))


def given_dir(data_dir: str | Path | None) -> Path | None:
    """The folder that the caller or EVIDENTIA_DATA names."""
    named = data_dir or os.environ.get("EVIDENTIA_DATA")
    return Path(named).expanduser() if named else None


def is_cached(entry: Entry) -> bool:
    """Whether every file is in the cache. Only verified files get there, so a look at sizes will do."""
    return all(_has_size(cache_dir() / entry.name / file.name, file.size) for file in entry.files)


def fetch(entry: Entry, data_dir: str | Path | None = None, download: bool = True) -> Path:
    """Bring the files of a data set into the cache, and say in which folder they are.

    Sources are tried in order: the folder given, the cache, the web, the registries. Files are written
    aside, verified and then moved into place, so that a failure or an interruption leaves nothing.
    """
    home = cache_dir() / entry.name
    if not is_cached(entry):
        with _writing_to(home, entry), FileLock(home / ".lock"):
            if not is_cached(entry):  # another process may have been faster
                _fetch_from_first(entry, _sources(entry, given_dir(data_dir), download), home)
    return home


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False


def _sources(entry: Entry, given: Path | None, download: bool) -> list[Source]:
    local = [] if given is None else [Folder(given, entry.subfolders, entry.archives)]
    return [*local, *(entry.sources if download else ())]


@contextlib.contextmanager
def _writing_to(home: Path, entry: Entry) -> Iterator[None]:
    """Say plainly when the cache can't be written."""
    remedy = "set EVIDENTIA_CACHE to another folder"
    try:
        home.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            size = entry.size / 1e6
            raise FetchError(
                f"no room on the disk for {entry.name}: it needs about {2 * size:.0f} MB in "
                f"{home.parent}; make room or {remedy}"
            ) from error
        if error.errno in NO_WRITING:
            raise FetchError(f"the cache folder {home} can't be written; {remedy}") from error
        raise


def _fetch_from_first(entry: Entry, sources: list[Source], home: Path) -> None:
    failures = []
    for leftover in home.glob(".fetch-*"):  # of a process that was killed: the lock is ours
        shutil.rmtree(leftover, ignore_errors=True)
    for source in sources:
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=home) as aside:
            folder = Path(aside) / "files"
            folder.mkdir()
            try:
                source.deliver(frozenset(file.name for file in entry.files), folder)
                _verify(entry, folder)
            except (DataError, MissingExtraError, OSError, ValueError) as error:
                if isinstance(error, OSError) and error.errno in NO_ROOM:
                    raise
                failures.append(f"{source.label}: {error}")
                continue
            for file in entry.files:
                os.replace(folder / file.name, home / file.name)
            return
    raise FetchError(_failure_message(entry, failures))


def _verify(entry: Entry, folder: Path) -> None:
    for file in entry.files:
        _verify_file(folder / file.name, file)


def _verify_file(path: Path, file: File) -> None:
    if not path.is_file():
        raise DataError(f"it has no {file.name}")
    if pooch.file_hash(str(path), alg="sha256") != file.sha256:
        raise DataError(f"{file.name} has another content than it should (SHA-256 differs)")


def _failure_message(entry: Entry, failures: list[str]) -> str:
    tried = failures or ["nothing: no folder was given, and downloading is off"]
    by_hand = placed_by_hand(entry.name, list(entry.archives), frozenset(file.name for file in entry.files))
    lines = [f"{entry.name} can't be had. Tried:", *(f"  - {line}" for line in tried)]
    lines.append(f"What to do: {by_hand}.")
    if entry.hint:
        lines.append(f"Or {entry.hint}.")
    return "\n".join(lines)
