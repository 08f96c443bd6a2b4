"""Pretrained weights: fetched and verified as data sets are, read without unpickling, kept as safetensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from nescio._fetch.store import REMEDY, cache_dir, fetch, has_content
from nescio._fetch.weights import Weights
from nescio._files import read_tensors, write_tensors
from nescio.errors import DataError, ModelFileError, NescioWarning

StateDict = dict[str, Tensor]


def verified_file(weights: Weights, name: str) -> Path:
    """One of the files, fetched where it is not here; its hash is computed at each call."""
    file = next(part for part in weights.parts if part.name == name)
    path = fetch(weights) / name
    if not has_content(path, file):
        raise DataError(_is_damaged(weights, path, "its SHA-256 is not the one it should have"))
    return path


def tensors_of_safetensors(weights: Weights) -> StateDict:
    """The tensors of weights that are published as safetensors."""
    return load_file(verified_file(weights, weights.parts[0].name))


def tensors_of_pickle(weights: Weights, convert: Callable[[StateDict], StateDict]) -> StateDict:
    """The tensors of weights that are published as a .pth file, by our names.

    It is read once, after its hash was checked, and without running anything of it; from then on there is a
    safetensors file beside it, whose own digest is checked at each call. Where that can't be written, as to a
    read-only cache, a warning says so, and it is read each time.

    Args:
        weights: What to read.
        convert: Function from the published tensors, in their published order, to those of our network.
    """
    kept = converted_path(weights)
    if kept.is_file():
        return _read_converted(weights, kept)
    published = verified_file(weights, weights.parts[0].name)
    tensors = convert(dict(torch.load(published, map_location="cpu", weights_only=True)))
    try:
        write_tensors(kept, tensors, _header(weights))
    except ModelFileError as error:
        # What was read is as good without the copy, which spares the next call to read the .pth file.
        warnings.warn(f"{error}; {REMEDY}", NescioWarning, stacklevel=2)
    return tensors


def converted_path(weights: Weights) -> Path:
    """Where the safetensors file is that was made of a .pth file."""
    return cache_dir() / weights.name / "converted.safetensors"


def fetch_again(weights: Weights, data_dir: str | Path | None = None) -> Path:
    """Bring the files here; those that are here are verified again, and fetched anew where damaged."""
    folder = fetch(weights, data_dir, recheck=True)
    kept = converted_path(weights)
    try:
        if kept.is_file():
            _read_converted(weights, kept)
    except DataError:
        kept.unlink()  # the next call that needs it makes it again
    return folder


def _header(weights: Weights) -> dict[str, str]:
    return {"weights": weights.name, "made of": weights.parts[0].sha256}


def _read_converted(weights: Weights, path: Path) -> StateDict:
    try:
        found = read_tensors(path)
    except ModelFileError as error:
        raise DataError(_is_damaged(weights, path, str(error))) from error
    if found.header != _header(weights):
        other = found.header.get("weights")
        raise DataError(_is_damaged(weights, path, f"it holds those of {other!r}, or another version"))
    return found.tensors


def _is_damaged(weights: Weights, path: Path, reason: str) -> str:
    return (
        f"the weights of {weights.name} in {path} can't be used: {reason}; "
        f"fetch them again with: nescio data fetch {weights.name}"
    )


def renamed(
    published: StateDict, names: Callable[[str], str | None], expected: Mapping[str, Tensor]
) -> StateDict:
    """Tensors by our names, in the shapes that the network has.

    Args:
        published: Tensors by their published names.
        names: Function from a published name to ours; None for what the network does not have.
        expected: The network's own state, which says what there must be.

    Raises:
        DataError: If a tensor is missing, is not expected or has another shape.
    """
    found: StateDict = {}
    for theirs, tensor in published.items():
        ours = names(theirs)
        if ours is not None:
            found[ours] = tensor
    for name, present in expected.items():
        if name not in found:
            raise DataError(f"the weights hold no {name}")
        if found[name].shape != present.shape:
            got = tuple(found[name].shape)
            raise DataError(f"the weights must hold {name} as {tuple(present.shape)}, got {got}")
    unknown = [name for name in found if name not in expected]
    if unknown:
        raise DataError(f"the weights hold {unknown[0]}, which the network does not have")
    return found
