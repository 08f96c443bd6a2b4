"""The loss against its peers: forward and backward from float32 logits and class indices, divergence on.

python -m benchmarks.loss [--out FILE.json]     (in the environment that `make bench` makes)

One thread; the contenders take turns within each repetition, and medians are compared. Memory is the most
that tensors held at a time beyond the logits, as torch's profiler saw it.
"""

import argparse
import importlib
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus

import nescio as ev

SHAPES = ((1000, 10), (256, 1000), (64, 21841))
RISKS = ("squared_error", "type2", "cross_entropy")
SECONDS_A_SHAPE = 20.0
LEAST_SPEEDUP = {1000: 1.5, 256: 5.0, 64: 5.0}  # by rows; of the squared error, against the fastest peer
MOST_MEGABYTES = 40.0  # at the last shape
Loss = Callable[[Tensor, Tensor], Tensor]


def load_alone(package: str, path: str) -> ModuleType | None:
    """One file of an installed package, without the imports of the package around it."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    file = Path(spec.submodule_search_locations[0], path)
    alone = importlib.util.spec_from_file_location(f"{package}_alone", file)
    assert alone is not None
    assert alone.loader is not None
    module = importlib.util.module_from_spec(alone)
    alone.loader.exec_module(module)
    return module


def peers(risk: str) -> dict[str, Loss]:
    """What is installed of the other libraries, for this risk."""
    found: dict[str, Loss] = {}
    if module := load_alone("torch_uncertainty", "losses/classification.py"):
        kind = {"squared_error": "mse", "type2": "log", "cross_entropy": "digamma"}[risk]
        found["torch-uncertainty"] = module.DECLoss(reg_weight=1.0, loss_type=kind)
    if risk == "squared_error" and importlib.util.find_spec("edl_pytorch"):
        edl = importlib.import_module("edl_pytorch")
        found["edl-pytorch"] = lambda logits, y: edl.evidential_classification(softplus(logits) + 1, y, 1.0)
    return found


def ours(risk: str, evidence: str) -> Loss:
    """EvidentialLoss with the divergence fully on."""
    return partial(ev.EvidentialLoss(risk=risk, evidence=evidence, divergence_weight=1.0), epoch=10.0)


def step(loss: Loss, logits: Tensor, targets: Tensor) -> None:
    """Forward and backward."""
    torch.autograd.grad(loss(logits, targets), logits)


def medians(losses: dict[str, Loss], logits: Tensor, targets: Tensor) -> dict[str, float]:
    """Milliseconds a step, taken in turns; before each, a step that does not count warms the caches."""
    times: dict[str, list[float]] = {name: [] for name in losses}
    stop = time.perf_counter() + SECONDS_A_SHAPE / len(RISKS)
    while time.perf_counter() < stop or len(times["softmax cross-entropy"]) < 5:
        for name, loss in losses.items():
            step(loss, logits, targets)
            start = time.perf_counter()
            step(loss, logits, targets)
            times[name].append(time.perf_counter() - start)
    return {name: 1e3 * statistics.median(taken) for name, taken in times.items()}


def peak_megabytes(loss: Loss, logits: Tensor, targets: Tensor) -> float:
    """The most memory that a step holds."""
    with torch.profiler.profile(profile_memory=True) as profile:
        step(loss, logits, targets)
    assert profile.profiler is not None
    assert profile.profiler.kineto_results is not None
    held, most = 0, 0
    changes = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    for change in sorted(changes, key=lambda event: event.start_ns()):
        held += change.nbytes()
        most = max(most, held)
    return most / 1e6


def measure(risk: str, rows: int, classes: int) -> list[dict[str, Any]]:
    """One row for each contender."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(rows, classes, generator=generator, requires_grad=True)
    targets = torch.randint(classes, (rows,), generator=generator)
    others = peers(risk)
    losses: dict[str, Loss] = {"softmax cross-entropy": cross_entropy}
    losses |= {f"nescio, {name}": ours(risk, name) for name in ("exp", "relu")}
    losses |= others
    taken = medians(losses, logits, targets)
    fastest = min((taken[name] for name in others), default=None)
    return [
        {
            "risk": risk,
            "shape": [rows, classes],
            "contender": name,
            "milliseconds": round(taken[name], 3),
            "to_cross_entropy": round(taken[name] / taken["softmax cross-entropy"], 2),
            "faster_than_fastest_peer": fastest and round(fastest / taken[name], 2),
            "peak_megabytes": round(peak_megabytes(loss, logits, targets), 1),
        }
        for name, loss in losses.items()
    ]


def missed(row: dict[str, Any]) -> bool:
    """Whether the loss with relu, as the peers compute it, is slower or larger than we promise."""
    if row["contender"] != "nescio, relu" or row["risk"] != "squared_error":
        return False
    speedup = row["faster_than_fastest_peer"]
    slow = speedup is not None and speedup < LEAST_SPEEDUP[row["shape"][0]]
    return bool(slow or row["peak_megabytes"] > MOST_MEGABYTES)


def main() -> None:
    """Measure all, print a table, write JSON; end with 1 where a promise is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/loss.json"))
    out = parser.parse_args().out
    torch.set_num_threads(1)
    results = []
    print(f"{'risk':14} {'shape':>12} {'contender':23} {'ms':>8} {'/ softmax':>10} {'vs peer':>8} {'MB':>7}")
    for shape in SHAPES:
        for risk in RISKS:
            for row in measure(risk, *shape):
                results.append(row)
                print(
                    f"{row['risk']:14} {row['shape']!s:>12} {row['contender']:23} {row['milliseconds']:8.3f} "
                    f"{row['to_cross_entropy']:10.2f} {row['faster_than_fastest_peer'] or '-':>7}x "
                    f"{row['peak_megabytes']:7.1f}{'   missed' if missed(row) else ''}"
                )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(
        json.dumps({"torch": torch.__version__, "threads": 1, "results": results}, indent=1) + "\n"
    )
    sys.exit(any(missed(row) for row in results))


if __name__ == "__main__":
    main()
