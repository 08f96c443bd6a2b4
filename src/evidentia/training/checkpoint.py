"""Checkpoints: the state of a run between two epochs, one safetensors file, replaced in one step."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from evidentia.errors import ModelFileError


class Checkpoint(NamedTuple):
    """Tensors by name and a header of plain data."""

    tensors: dict[str, Tensor]
    header: dict[str, Any]


def write_bytes_safely(path: Path, content: bytes) -> None:
    """Write aside, flush to the disk, move into place: at any moment the path holds the old or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        with aside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """A safetensors file with the header as JSON in its metadata."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_bytes_safely(path, save(plain, metadata={"evidentia": json.dumps(header)}))


def read_tensors(path: Path) -> Checkpoint:
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
        header = json.loads(metadata["evidentia"])
    except (KeyError, json.JSONDecodeError) as error:
        raise ModelFileError(f"{path} was not written by evidentia") from error
    if not isinstance(header, dict):
        raise ModelFileError(f"{path} was not written by evidentia: its header is no table")
    return Checkpoint(tensors, header)


def pack_state(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Weights and optimiser state as named tensors."""
    tensors = {f"module.{name}": value for name, value in module.state_dict().items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": torch.as_tensor(value) for name, value in state.items()}
    return tensors


def unpack_state(tensors: Mapping[str, Tensor], module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Put weights and optimiser state back."""
    prefix = "module."
    weights = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
    module.load_state_dict(weights)
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        kind, _, rest = name.partition(".")
        if kind == "optimizer":
            index, _, key = rest.partition(".")
            state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
