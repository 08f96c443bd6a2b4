"""Where a training runs: device, precision, processes; Lightning Fabric does the rest."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch

from nescio.errors import InputError

if TYPE_CHECKING:
    from lightning_fabric import Fabric

DEVICES = ("auto", "cpu", "cuda", "mps")
FABRIC_PRECISION: dict[str, Any] = {"float32": "32-true", "bfloat16": "bf16-mixed", "float64": "64-true"}


def native_bfloat16(device_type: str) -> bool:
    """Whether the hardware computes in bfloat16. A CPU that does not emulates it, several times slower."""
    if device_type == "cpu":
        probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
        return any(getattr(torch.cpu, probe, bool)() for probe in probes)
    return device_type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def is_first_process() -> bool:
    """Of those that torchrun started, one speaks and writes for all."""
    return os.environ.get("RANK", "0") == "0"


def require_device(device: str) -> None:
    """A device that is known, and is here."""
    if device not in DEVICES:
        raise InputError(f"device must be one of {', '.join(DEVICES)}, got {device!r}")
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not present.get(device, True):
        raise InputError(f"there is no {device} device here; use auto or cpu")


def make_fabric(device: str, precision: str) -> Fabric:
    """For one process, or for each of those that torchrun started."""
    from lightning_fabric import Fabric

    require_device(device)
    accelerator = _accelerator() if device == "auto" else device
    if precision == "auto":
        precision = "bfloat16" if native_bfloat16(accelerator) else "float32"
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    fabric = Fabric(
        accelerator=accelerator,
        devices=local,
        num_nodes=processes // local,
        strategy="ddp" if processes > 1 else "auto",
        precision=FABRIC_PRECISION[precision],
    )
    fabric.launch()
    return fabric


def _accelerator() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
