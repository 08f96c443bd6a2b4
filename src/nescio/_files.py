"""Files: written in one step, so that a path holds the old content or the new; tensors with a digest.

Torch is not waited for by this import: what fetches data sets writes files too.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from safetensors import SafetensorError, safe_open

from nescio.errors import ModelFileError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

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
    """Write aside, flush to the disk, move into place: at any moment the path holds the old or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        with aside.open("xb") as file:
            file.write(content)
        move_atomically(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def move_atomically(written: Path, path: Path) -> None:
    """Move a file that was written aside, on the same disk, into place: first its content is on the disk."""
    # Windows flushes only what is open for writing; elsewhere a file may be read-only.
    mode = "rb+" if os.name == "nt" else "rb"
    with written.open(mode) as file:
        os.fsync(file.fileno())
    os.replace(written, path)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """A safetensors file with the header as JSON in its metadata, and a digest of both."""
    from safetensors.torch import save

    plain = _apart({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    text = json.dumps({"header": header, "sha256": digest(plain, json.dumps(header))})
    write_atomically(path, save(plain, metadata={KEY: text}))


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
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            raise ModelFileError(f"there is no file {path}") from error
        raise ModelFileError(f"{path} is damaged or no safetensors file ({error})") from error
    try:
        content = json.loads(metadata[KEY] if KEY in metadata else metadata[FORMER_KEY])
        header, expected = content["header"], content["sha256"]
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ModelFileError(f"{path} was not written by nescio") from error
    if not isinstance(header, dict):
        raise ModelFileError(f"{path} was not written by nescio: its header is no table")
    if expected != digest(tensors, json.dumps(header)):
        raise ModelFileError(f"{path} is damaged or was edited: its content does not have its digest")
    return TensorFile(tensors, header)


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
