"""All inputs of a source as a model takes them: few in memory, many in the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from nescio._fetch.progress import say
from nescio._fetch.store import cache_dir
from nescio.data._row_writer import StoredArrayWriter, read_notes
from nescio.data._stored import StoredArray, is_resident, stored_once
from nescio.data._values import Picture, Row, Text, Value
from nescio.data.preprocess import Preprocess
from nescio.errors import DataError

if TYPE_CHECKING:
    from nescio.data.sources._base import Source

READ_AT_ONCE = 256  # inputs


class Prepared(NamedTuple):
    """The inputs of a source as a model takes them.

    Args:
        inputs: (M, ...), of those that can be read.
        kept: Their positions among all inputs, int64 (M,).
        unreadable: What is wrong with the others, by their names.
    """

    inputs: Tensor | StoredArray
    kept: Tensor
    unreadable: dict[str, str]


class _Part(NamedTuple):
    """Some inputs of a source that follow each other; None in the place of one that can't be read."""

    names: list[str]
    tensors: list[Tensor | None]
    reasons: list[str]


def prepare_inputs(source: Source, preprocess: Preprocess | None) -> Prepared:
    """See `Source.prepared`: few in memory; many are written to the cache once, and read from there."""
    example = _first_readable(source, preprocess)
    if is_resident(len(source) * example.nbytes):
        return _prepare_resident(source, preprocess)
    key = hashlib.sha256(f"{source.fingerprint()}\0{preprocess and preprocess.preparation}".encode())
    path = cache_dir() / "inputs" / f"{key.hexdigest()}.npy"

    def fill(writer: StoredArrayWriter) -> None:
        for part in _parts(source, preprocess, writer.count):
            rows = torch.zeros((len(part.tensors), *example.shape), dtype=example.dtype)
            for place, tensor in enumerate(part.tensors):
                if tensor is None:
                    known = writer.notes.setdefault("unreadable", {})
                    known[str(writer.count + place)] = [part.names[place], part.reasons[place]]
                else:
                    rows[place] = tensor
            writer.append(rows)

    stored = stored_once(path, example.shape, example.dtype, fill, _tell_who_reads)
    unreadable = read_notes(path).get("unreadable", {})
    kept = torch.ones(len(stored), dtype=torch.bool)
    kept[[int(position) for position in unreadable]] = False
    if unreadable:
        stored = stored.select(kept)
    return Prepared(stored, kept.nonzero().flatten(), dict(unreadable.values()))


def _prepare_resident(source: Source, preprocess: Preprocess | None) -> Prepared:
    tensors = []
    kept = []
    unreadable = {}
    position = 0
    for part in _parts(source, preprocess, 0):
        for name, tensor, reason in zip(*part, strict=True):
            if tensor is None:
                unreadable[name] = reason
            else:
                tensors.append(tensor)
                kept.append(position)
            position += 1
    return Prepared(torch.stack(tensors), torch.tensor(kept), unreadable)


def _parts(source: Source, preprocess: Preprocess | None, start: int) -> Iterator[_Part]:
    """All inputs from a position on, some at a time."""
    for first in range(start, len(source), READ_AT_ONCE):
        yield _read_part(source, preprocess, range(first, min(first + READ_AT_ONCE, len(source))))


def _read_part(source: Source, preprocess: Preprocess | None, indices: Sequence[int]) -> _Part:
    part = _Part([], [], [])
    for one in source.read(indices):
        tensor = None
        reason = one.error or ""
        try:
            if one.value is not None:
                tensor = _as_tensor(one.value, preprocess)
        except DataError as error:
            reason = str(error)
        part.names.append(one.name)
        part.tensors.append(tensor)
        part.reasons.append(reason)
    return part


def _first_readable(source: Source, preprocess: Preprocess | None) -> Tensor:
    first_error = None
    for position in range(len(source)):
        part = _read_part(source, preprocess, [position])
        if part.tensors[0] is not None:
            return part.tensors[0]
        if first_error is None:
            first_error = f"{part.names[0]}: {part.reasons[0]}"
    raise DataError(first_error or f"{source.name} holds nothing to read")


def _as_tensor(value: Value, preprocess: Preprocess | None) -> Tensor:
    """As a model needs it, or else as it is."""
    if preprocess is not None:
        return preprocess.prepare(value)
    if isinstance(value, Picture | Row | Text):
        raise DataError(f"a source of {type(value).__name__}s must say itself how they become numbers")
    return value


def _tell_who_reads(who: str) -> None:
    say(f"{who} is reading these inputs; waiting")
