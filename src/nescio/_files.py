"""Files: written in one step, so that a path holds the old content or the new; tensors with a digest.

Torch is not waited for by this import: what fetches data sets writes files too.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import operator
import os
import re
import shutil
import stat
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol

from safetensors import SafetensorError, safe_open

from nescio.errors import ModelFileError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import torch
    from torch import Tensor

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_LONGEST_NAME = 255  # bytes of a file's name, on nearly all systems
_UNIQUE = "[0-9a-f]{32}"
_ABANDONED_SECONDS = 24 * 3600  # where no lock tells whether a process still writes

KEY = "nescio"  # of our header among a file's metadata
FORMER_KEY = "evidentia"  # as files of format 1 have it, from before the project got its name


class TensorFile(NamedTuple):
    """Tensors by name and a header of plain data."""

    tensors: dict[str, Tensor]
    header: dict[str, Any]


class Chunked(Protocol):
    """Values that are read a part at a time, as a stored array is."""

    @property
    def dtype(self) -> torch.dtype:
        """Of the values."""

    @property
    def shape(self) -> torch.Size:
        """Of all of them together."""

    def fingerprint(self) -> str | None:
        """What tells them from others, where that is known without reading them."""

    def chunks(self) -> Iterator[Tensor]:
        """All of them, in their order."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write aside, flush to the disk, move into place: at any moment the path holds the old or the new.

    A link stays one: what it leads to is written. A file that is there keeps its mode.

    Raises:
        PermissionError: If the file is there and read-only.
        OSError: If it can't be written; the error names the file.
    """
    path = _followed(path)
    with _naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        require_writable(path)
        remove_leftovers(path)
        with _written_aside(path, content) as aside:
            _keep_mode(aside, path)
            os.replace(aside, path)


def create_atomically(path: Path, content: bytes) -> bool:
    """Write a file that is not there yet; whether it was this call that made it, also of several at once."""
    with _naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path)
        with _written_aside(path, content) as aside:
            try:
                os.link(aside, path)
            except FileExistsError:
                return False
            except OSError:  # a disk without links: others may see the file before all of it is there
                return _create(path, content)
    return True


def _create(path: Path, content: bytes) -> bool:
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        return False
    return True


def move_atomically(written: Path, path: Path) -> None:
    """Move a file that was written aside, on the same disk, into place: first its content is on the disk.

    Raises:
        PermissionError: If a file is there and read-only; else it keeps its mode.
    """
    require_writable(path)
    # Windows flushes only what is open for writing; elsewhere a file may be read-only.
    mode = "rb+" if os.name == "nt" else "rb"
    with written.open(mode) as file:
        os.fsync(file.fileno())
    _keep_mode(written, path)
    os.replace(written, path)


def sync_folder(folder: Path) -> None:
    """Bring the names of a folder's files to the disk, where the system can: what was moved there stays."""
    with contextlib.suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def why_not_written(error: OSError) -> str:
    """Why a file can't be written, and what to do where the disk is full."""
    reason = error.strerror or str(error)
    if error.errno in NO_ROOM:
        return f"{reason}; make room on the disk and start again: what is finished stays"
    return reason


def _followed(path: Path) -> Path:
    """What a link leads to; every other path as it is."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors of the system name the file that was to be written, not the one aside or none at all."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from error


def require_writable(path: Path) -> None:
    """Refuse to replace a read-only file, a pipe or a device: to move a file into its place would not ask."""
    if not path.exists() or path.is_dir():
        return
    if not path.is_file():
        raise PermissionError(errno.EACCES, "it is no plain file, but a pipe or a device", str(path))
    if not (path.stat().st_mode & 0o222 and os.access(path, os.W_OK)):
        raise PermissionError(errno.EACCES, "it is read-only", str(path))


def _keep_mode(written: Path, path: Path) -> None:
    if path.is_file():
        shutil.copymode(path, written)


@contextlib.contextmanager
def _written_aside(path: Path, content: bytes) -> Iterator[Path]:
    """The content on the disk, in a file of its own beside the path; gone afterwards, unless it was moved."""
    aside, file = _new_file_beside(path)
    try:
        with file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if fcntl is not None:
                yield aside  # while the lock is held: nobody takes it for one that was left
        if fcntl is None:
            yield aside  # Windows moves no file that is open
    finally:
        aside.unlink(missing_ok=True)


def _new_file_beside(path: Path) -> tuple[Path, IO[bytes]]:
    """A new file with a name that tells which one it is for, locked while it is open."""
    while True:
        aside = path.with_name(f"{_prefix_of(path.name)}{uuid.uuid4().hex}")
        file = aside.open("xb")
        if fcntl is None:
            return aside, file
        with contextlib.suppress(OSError):  # a disk without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        if aside.exists():  # else another process took it for one that was left, before it was locked
            return aside, file
        file.close()


def _prefix_of(name: str) -> str:
    """How the names of the files begin that are written aside for a file."""
    if len(os.fsencode(name)) > _LONGEST_NAME - 34:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    return f".{name}-"


def is_written_aside(name: str, target: str) -> bool:
    """Whether a file of this name is, or was, written aside for the target."""
    return re.fullmatch(re.escape(_prefix_of(target)) + _UNIQUE, name) is not None


def remove_leftovers(path: Path) -> None:
    """Remove what processes that were killed while they wrote this file have left beside it."""
    names: list[str] = []
    with contextlib.suppress(OSError):  # a folder that may be written to and not be read
        names = os.listdir(path.parent)
    for name in names:
        if is_written_aside(name, path.name):
            with contextlib.suppress(OSError):
                _remove_if_abandoned(path.with_name(name))


def _remove_if_abandoned(path: Path) -> None:
    if fcntl is None:
        if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
            path.unlink()
        return
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused while its writer lives
        path.unlink()


def json_text(content: Any) -> str:
    """As JSON; whole numbers of numpy are written as those of Python."""
    return json.dumps(content, default=operator.index)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """A safetensors file with the header as JSON in its metadata, and a digest of both.

    Raises:
        ModelFileError: If it can't be written.
    """
    from safetensors.torch import save

    plain = _apart({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    text = json_text({"header": header, "sha256": digest(plain, json_text(header))})
    content = save(plain, metadata={KEY: text})
    try:
        write_atomically(path, content)
    except OSError as error:
        raise ModelFileError(f"{path} can't be written: {why_not_written(error)}") from error


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors that share memory, as tied weights do, each in its own: the format knows no sharing."""
    seen: set[int] = set()
    for name, tensor in tensors.items():
        place = tensor.untyped_storage().data_ptr()
        if place in seen:
            tensors[name] = tensor.clone()
        seen.add(place)
    return tensors


def read_tensors(path: Path) -> TensorFile:
    """Back from such a file; anything else is refused. Nothing is ever unpickled."""
    _require_plain_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ModelFileError(f"{path} is damaged or no safetensors file ({error})") from error
    try:
        content = json.loads(metadata[KEY] if KEY in metadata else metadata[FORMER_KEY])
        header, expected = content["header"], content["sha256"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} was not written by nescio") from error
    if not isinstance(header, dict):
        raise ModelFileError(f"{path} was not written by nescio: its header is no table")
    try:
        found = digest(tensors, json.dumps(header))
    except (RuntimeError, TypeError, ValueError, UnicodeError) as error:  # a type that torch can't look into
        reason = " ".join(str(error).split())
        raise ModelFileError(f"{path} was not written by nescio: {reason}") from error
    if expected != found:
        raise ModelFileError(f"{path} is damaged or was edited: its content does not have its digest")
    return TensorFile(tensors, header)


def _require_plain_file(path: Path) -> None:
    """Refuse what is no file, before it is opened: to open a pipe waits until somebody writes to it."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        raise ModelFileError(f"there is no file {path}") from error
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} can't be read: {error}") from error
    if not stat.S_ISREG(mode):
        raise ModelFileError(f"{path} must be a file, got a folder, a pipe or a device")


def digest(tensors: Mapping[str, Tensor | Chunked], text: str = "") -> str:
    """SHA-256 over names, kinds, shapes and values of tensors, and a text."""
    import torch

    found = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        value = tensors[name]
        found.update(f"\0{name}\0{value.dtype}\0{tuple(value.shape)}\0".encode())
        for part in _parts_of(value):
            found.update(part.contiguous().flatten().view(torch.uint8).numpy().data)
    return found.hexdigest()


def _parts_of(value: Tensor | Chunked) -> Iterable[Tensor]:
    """All values, or the fingerprint that stands for them, so that they need not be read."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    fingerprint = value.fingerprint()
    if fingerprint is not None:
        return [torch.frombuffer(bytearray(fingerprint.encode()), dtype=torch.uint8)]
    return value.chunks()


def named(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those whose names begin with `prefix.`, by the rest of their names."""
    start = f"{prefix}."
    return {name[len(start) :]: value for name, value in tensors.items() if name.startswith(start)}
