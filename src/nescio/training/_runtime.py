"""Where a training runs: device, precision, processes; Lightning Fabric does the rest."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nescio._fetch.store import cache_dir
from nescio._files import write_atomically
from nescio._hardware import processor_name
from nescio.errors import InputError

if TYPE_CHECKING:
    from lightning_fabric import Fabric
    from lightning_fabric.strategies.strategy import Strategy

DEVICES = ("auto", "cpu", "cuda", "mps")
FABRIC_PRECISION: dict[str, Any] = {"float32": "32-true", "bfloat16": "bf16-mixed", "float64": "64-true"}
# What bfloat16 on this CPU is worth.
FASTER = "faster"
SLOWER = "slower"
BROKEN = "broken"
# Run in a process of its own. The shapes are large enough that the fastest instructions are chosen.
BFLOAT16_TRIAL = """
import time
import torch
torch.set_num_threads(1)
seconds = {}
for dtype in (torch.float32, torch.bfloat16):
    images = torch.ones(32, 64, 16, 16, dtype=dtype).contiguous(memory_format=torch.channels_last)
    filters = torch.ones(64, 64, 3, 3, dtype=dtype).contiguous(memory_format=torch.channels_last)
    for attempt in range(4):
        start = time.perf_counter()
        torch.nn.functional.conv2d(images, filters)
        torch.matmul(filters.flatten(1), filters.flatten(1).T)
        seconds[dtype] = min(seconds.get(dtype, 1e9), time.perf_counter() - start)
print("faster" if seconds[torch.bfloat16] < seconds[torch.float32] else "slower")
"""


def allow_gradients_inside_a_loss(wrapped: nn.Module) -> None:
    """Let a loss call torch.autograd.grad on a module that Fabric has set up, as an adversarial step does.

    In mixed precision Fabric hooks every output and refuses gradients that are not of `fabric.backward`,
    because a loss could be scaled by then. In bfloat16, the one mixed precision that is used here, no loss is
    scaled. Fabric has no public switch for it: this is the one place that reaches into it, and a test fails
    where a new version of Fabric hooks its outputs in another way.
    """
    wrapped._register_backward_hook = _leave  # type: ignore[assignment]


def _leave(output: Tensor) -> Tensor:
    return output


def native_bfloat16(device_type: str) -> bool:
    """Whether the hardware computes in bfloat16, and faster than in float32."""
    if device_type == "cpu":
        return cpu_announces_bfloat16() and bfloat16_on_cpu() == FASTER
    return device_type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def cpu_announces_bfloat16() -> bool:
    """Whether the CPU says that it has instructions for bfloat16."""
    probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, probe, bool)() for probe in probes)


@functools.lru_cache(maxsize=1)
def bfloat16_on_cpu() -> str:
    """What the announced instructions are worth: FASTER or SLOWER than float32, or BROKEN.

    Some virtual machines announce instructions that end the process when they are used, so they are tried in
    a process of their own. That takes some seconds, and the answer is kept beside the data.
    """
    path = cache_dir() / "bfloat16.json"
    conditions = bfloat16_conditions()
    try:
        kept = json.loads(path.read_text())
        if kept["conditions"] == conditions:
            return str(kept["answer"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # nothing is kept, or nothing that can be read: try
    answer = _try_bfloat16()
    with contextlib.suppress(OSError):  # where it can't be kept it is tried again next time
        write_atomically(path, json.dumps({"conditions": conditions, "answer": answer}).encode())
    return answer


def bfloat16_conditions() -> dict[str, str]:
    """What the worth of bfloat16 depends on: an answer that was kept under others is not used."""
    return {
        "torch": torch.__version__,
        "limit": os.environ.get("ONEDNN_MAX_CPU_ISA", ""),
        "processor": processor_name(),  # machines may share the folder
    }


def _try_bfloat16() -> str:
    command = [sys.executable, "-c", BFLOAT16_TRIAL]
    trial = subprocess.run(command, capture_output=True, text=True, check=False)
    if trial.returncode != 0:
        return BROKEN
    return trial.stdout.strip()


def is_first_process() -> bool:
    """Whether this process speaks and writes for all that torchrun started."""
    is_alone = os.environ.get("WORLD_SIZE", "1") == "1"
    return is_alone or os.environ.get("RANK", "0") == "0"


def require_device(device: str) -> None:
    """Refuse a device that is not known, or not here."""
    if device not in DEVICES:
        raise InputError(f"device must be one of {', '.join(DEVICES)}, got {device!r}")
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not present.get(device, True):
        raise InputError(f"there is no {device} device here; use auto or cpu")


def make_fabric(device: str, precision: str) -> Fabric:
    """Lightning Fabric for one process, or for each of those that torchrun started."""
    with _without_importing("torchmetrics"):
        from lightning_fabric import Fabric
        from lightning_fabric.strategies.ddp import DDPStrategy

    require_device(device)
    accelerator = device
    if device == "auto":
        accelerator = _best_accelerator()
    if precision == "auto":
        precision = "bfloat16" if native_bfloat16(accelerator) else "float32"
    elif precision == "bfloat16" and accelerator == "cpu":
        require_working_bfloat16()
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    processes_here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    strategy: str | Strategy = "auto"
    if processes > 1:
        # Gradients lie in the buffers in which they are exchanged: else each process would hold them twice.
        strategy = DDPStrategy(gradient_as_bucket_view=True)
    fabric = Fabric(
        accelerator=accelerator,
        devices=processes_here,
        num_nodes=processes // processes_here,
        strategy=strategy,
        precision=FABRIC_PRECISION[precision],
    )
    fabric.launch()
    return fabric


@contextlib.contextmanager
def _without_importing(named: str) -> Iterator[None]:
    """Within it, lightning_utilities compares the version of the named package without importing it.

    lightning_fabric asks for the version of torchmetrics where that is installed, and torchmetrics imports
    scipy and transformers: twice the time that torch itself takes.
    """
    from lightning_utilities.core import imports
    from packaging.version import Version

    by_import = imports.compare_version

    def compare_version(
        package: str, op: Callable[..., Any], version: str, use_base_version: bool = False
    ) -> bool:
        if package != named:
            return by_import(package, op, version, use_base_version)
        try:
            return bool(op(Version(importlib.metadata.version(package)), Version(version)))
        except importlib.metadata.PackageNotFoundError:
            return False

    imports.compare_version = compare_version
    try:
        yield
    finally:
        imports.compare_version = by_import


def require_working_bfloat16() -> None:
    """Refuse bfloat16 on a CPU where it would end the process."""
    if cpu_announces_bfloat16() and bfloat16_on_cpu() == BROKEN:
        raise InputError(
            "precision bfloat16: this machine announces instructions for it that do not work; use float32, "
            "or set the environment variable ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"
        )


def _best_accelerator() -> str:
    if torch.cuda.is_available():
        return "cuda"
    if torch.backends.mps.is_available():
        return "mps"
    return "cpu"
