"""The cache of verified files, and how they get there."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pooch

from nescio._fetch.downloads import AbsentError, Folder, Origin, first_line, placed_by_hand
from nescio._fetch.files import File, FileSet
from nescio._fetch.progress import Report, reporting, say
from nescio._files import NO_ROOM, move_atomically
from nescio._locks import one_at_a_time
from nescio.errors import DataError, FetchError, InputError, NescioError, NescioWarning

NO_WRITING = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENOENT, errno.EEXIST)
REMEDY = "set NESCIO_CACHE to another folder"
# While a data set is fetched: the archive, what a client keeps of it, and the files.
ROOM_FACTOR = 3

Failure = tuple[Origin, Exception]


def cache_dir() -> Path:
    """NESCIO_CACHE, or the place for caches on this system."""
    try:
        return Path(os.environ.get("NESCIO_CACHE") or pooch.os_cache("nescio")).expanduser()
    except RuntimeError as error:
        raise InputError(
            "there is no home folder for the cache (HOME is not set); name a folder for it with NESCIO_CACHE"
        ) from error


def given_dir(data_dir: str | Path | None) -> Path | None:
    """The folder that the caller or NESCIO_DATA names; it must be there."""
    named = data_dir or os.environ.get("NESCIO_DATA")
    if not named:
        return None
    folder = Path(os.path.expanduser(named))
    if not folder.is_dir():
        named_by = "data_dir" if data_dir else "NESCIO_DATA"
        raise InputError(f"{named_by} must name a folder; there is no folder {folder}")
    return folder


def is_cached(entry: FileSet) -> bool:
    """Whether every file is in the cache. Only verified files get there, so a look at sizes will do."""
    return all(_has_size(cache_dir() / entry.name / file.name, file.size) for file in entry.files)


def state(entry: FileSet, data_dir: str | Path | None = None) -> str:
    """Where the data set is, or how it can be had, for people."""
    given = given_dir(data_dir)
    if is_cached(entry):
        return "here"
    if given is not None and _folder(entry, given).holds(entry.sizes):
        return "in the folder given" if data_dir else "in NESCIO_DATA"
    local = any(not origin.needs_network for origin in entry.origins)
    return "comes installed" if local else "to fetch"


def fetch(
    entry: FileSet, data_dir: str | Path | None = None, download: bool = True, *, recheck: bool = False
) -> Path:
    """Bring the files of a data set into the cache, and say in which folder they are.

    Origins are tried in order: the folder given, the web, the registries. Verified files in the cache
    are the same bytes, so they are used at once; with `recheck` their hashes are computed once more.
    Files are written aside, verified and then moved into place, so that a failure or an interruption
    leaves nothing.
    """
    given = given_dir(data_dir)
    home = cache_dir() / entry.name
    if recheck:
        _forget_damaged(entry, home)
    if not is_cached(entry):
        with _explaining(entry, home), _locked(entry.name):
            if not is_cached(entry):  # another process may have been faster
                _fill(home, entry, _origins(entry, given, download))
    return home


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False


def has_content(path: Path, file: File) -> bool:
    """Whether the file at the path has the right bytes; its hash is computed."""
    return _has_size(path, file.size) and pooch.file_hash(str(path), alg="sha256") == file.sha256


def _forget_damaged(entry: FileSet, home: Path) -> None:
    for file in entry.files:
        path = home / file.name
        if path.is_file() and not has_content(path, file):
            warnings.warn(f"{path} is damaged; it is fetched anew", NescioWarning, stacklevel=3)
            with _explaining(entry, home):
                path.unlink(missing_ok=True)


def _folder(entry: FileSet, given: Path) -> Folder:
    return Folder(given, entry.subfolders, entry.archives)


def _origins(entry: FileSet, given: Path | None, download: bool) -> list[Origin]:
    local = [] if given is None else [_folder(entry, given)]
    return [*local, *(origin for origin in entry.origins if download or not origin.needs_network)]


@contextlib.contextmanager
def _explaining(entry: FileSet, home: Path) -> Iterator[None]:
    """Say plainly when the cache can't be written."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise _no_room(entry, home) from error
        if error.errno in NO_WRITING:
            raise FetchError(f"the cache folder {home} can't be written; {REMEDY}") from error
        raise


def _locked(name: str) -> AbstractContextManager[None]:
    """One process at a time; who has to wait is told so."""
    path = cache_dir() / ".locks" / f"{name}.lock"
    return one_at_a_time(path, lambda holder: say(f"{holder} is fetching {name}; waiting"))


def _fill(home: Path, entry: FileSet, origins: list[Origin]) -> None:
    home.mkdir(exist_ok=True)
    try:
        if _free(home) < ROOM_FACTOR * entry.size:
            raise _no_room(entry, home)
        _fetch_from_first(entry, origins, home)
    finally:
        with contextlib.suppress(OSError):  # it holds files
            home.rmdir()


def _free(folder: Path) -> int:
    present = next(place for place in (folder, *folder.parents) if place.exists())
    return shutil.disk_usage(present).free


def _no_room(entry: FileSet, home: Path) -> FetchError:
    needed, free = ROOM_FACTOR * entry.size / 1e6, _free(home) / 1e6
    return FetchError(
        f"no room on the disk for {entry.name}: it needs about {needed:,.0f} MB in {home.parent}, "
        f"{free:,.0f} MB are free; make room or {REMEDY}"
    )


def _fetch_from_first(entry: FileSet, origins: list[Origin], home: Path) -> None:
    failures: list[Failure] = []
    for leftover in home.glob(".fetch-*"):  # of a process that was killed: the lock is ours
        shutil.rmtree(leftover, ignore_errors=True)
    for origin in origins:
        try:
            with reporting(f"{entry.name} from {origin.label}") as report:
                _fetch_from(origin, entry, home, report)
        except Exception as error:  # an origin is never trusted: it may fail in any way
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                raise
            failures.append((origin, error))
        else:
            _warn_of_wrong_files(entry, failures, origin)
            return
    raise FetchError(_failure_message(entry, failures))


def _fetch_from(origin: Origin, entry: FileSet, home: Path, report: Report) -> None:
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=home) as aside:
        folder = Path(aside) / "files"
        folder.mkdir()
        origin.deliver(entry.sizes, folder, report)
        report.stage("verifying")
        for file in entry.files:
            _verify_file(folder / file.name, file)
        for file in entry.files:
            move_atomically(folder / file.name, home / file.name)


def _verify_file(path: Path, file: File) -> None:
    if not path.is_file():
        raise DataError(f"it has no {file.name}")
    if not has_content(path, file):
        raise DataError(f"{file.name} has another content than it should (SHA-256 differs)")


def _warn_of_wrong_files(entry: FileSet, failures: list[Failure], instead: Origin) -> None:
    for origin, error in failures:
        if isinstance(origin, Folder) and not isinstance(error, AbsentError):
            warnings.warn(
                f"{origin.label}: {_said(error)}; {entry.name} comes from {instead.label} instead",
                NescioWarning,
                stacklevel=5,
            )


def _said(error: Exception) -> str:
    if isinstance(error, NescioError | OSError):
        return first_line(str(error))
    return first_line(f"{type(error).__name__}: {error}").rstrip(": ")


def _failure_message(entry: FileSet, failures: list[Failure]) -> str:
    tried = [f"{origin.label}: {_said(error)}" for origin, error in failures]
    tried = tried or ["nothing: no folder was given, and downloading is off"]
    by_hand = placed_by_hand(entry.name, entry.archives, entry.sizes)
    lines = [f"{entry.name} can't be had. Tried:", *(f"  - {line}" for line in tried)]
    lines.append(f"What to do: {by_hand}.")
    if entry.hint:
        lines.append(f"Or {entry.hint}.")
    return "\n".join(lines)
