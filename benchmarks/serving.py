"""Load on the service, on loopback: single images from 64 clients at once, against the bare network.

python -m benchmarks.serving [REQUESTS] [MODEL...] [--runtime onnx] [--only raw json workers] [--out FILE]

By default 20,000 requests and the bundled pair; the numbers are added to benchmarks/results/serving.json.

The bare network is the same models' forward passes by torch in a loop over batches that are ready, on one
core; a client in a process of its own is left another. Images are sent as JSON and as raw bytes. Images per
second are compared in turns; and, since that is disturbed where cores are not free, images per second of the
server's own processor time, which is what the limits are held against. Also looked at: errors, the slowest
hundredth of the requests, whether the server's memory stays level, the time from its start to the first
answer, and how much faster two workers are than one: by the processor time of the busier one, so that the
clients, which share the cores, are counted out.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nescio.inference.model import TrainedModel
from nescio.serve._models import bundled_paths
from nescio.training import as_input

CLIENTS = 64
BATCH = 64
TURNS = 4
MIN_SHARES = {"raw": 0.6, "json": 0.45}
MAX_SLOWDOWN = 15.0
MAX_GROWTH = 1.1
MAX_START_SECONDS = 5.0
MIN_SPEEDUP = 1.7
LOAD_TIMEOUT = 3000  # seconds; a server that no longer answers is an error
CONTENT_TYPES = {"raw": "application/octet-stream", "json": "application/json"}
RESULTS = Path("benchmarks/results/serving.json")
SERVE = (sys.executable, "-c", "from nescio.cli.app import main; main()", "serve", "--port", "0")


@dataclass(frozen=True)
class LoadResult:
    """One load: requests per second, seconds of each, and how many were not answered well."""

    rate: float
    latencies: list[float]
    errors: int


@contextmanager
def server(words: list[str]) -> Iterator[tuple[int, int]]:
    """The service in a process of its own, on one core as the bare network: its port and process number."""
    one_core = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen([*SERVE, *words], stdout=subprocess.PIPE, text=True, env=one_core) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split(" at ")[1].split()[0]
        try:
            yield int(address.rpartition(":")[2]), process.pid
        finally:
            process.terminate()


def load(port: int, clients: int, requests: int, kind: str, body: bytes) -> LoadResult:
    """So many requests from so many connections."""
    words = (str(port), str(clients), str(requests), CONTENT_TYPES[kind])
    command = (sys.executable, "-m", "benchmarks.serving_client", *words)
    ended = subprocess.run(command, input=body, capture_output=True, check=True, timeout=LOAD_TIMEOUT)
    result = json.loads(ended.stdout)
    latencies = result["latencies"]
    return LoadResult(len(latencies) / result["seconds"], latencies, result["errors"])


@dataclass(frozen=True)
class Bare:
    """Images per second, and per second of processor time."""

    rate: float
    busy_rate: float


def bare(models: list[TrainedModel], batches: int = 60) -> Bare:
    """What all models take in, one after the other, in a loop over a batch."""
    raw = torch.randint(256, (BATCH, *models[0].input_shape), dtype=torch.uint8)
    inputs = [as_input(raw, model.preprocess) for model in models]
    with torch.inference_mode():
        start = time.perf_counter()
        busy_start = time.process_time()
        for _ in range(batches):
            for model, ready in zip(models, inputs, strict=True):
                model.module(ready)
    images = batches * BATCH
    return Bare(images / (time.perf_counter() - start), images / (time.process_time() - busy_start))


def resident(process: int) -> int:
    """Bytes of memory that a process holds."""
    return int(Path(f"/proc/{process}/status").read_text().split("VmRSS:")[1].split()[0]) * 1024


def busy_seconds(process: int) -> float:
    """Processor time that a process has used."""
    ticks = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def workers_of(process: int) -> list[int]:
    """The processes that serve, of a parent."""
    workers = []
    for word in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        try:
            command = Path(f"/proc/{word}/cmdline").read_bytes()
        except OSError:  # it has ended
            continue
        if b"spawn_main" in command:
            workers.append(int(word))
    return workers


def measure(
    kind: str, body: bytes, words: list[str], models: list[TrainedModel], requests: int
) -> tuple[list[str], dict[str, float]]:
    """Measure one way of sending images, print it; the limits that were missed, and the numbers."""
    bares: list[Bare] = []
    loads: list[LoadResult] = []
    memory: list[int] = []
    busy = 0.0
    start = time.perf_counter()
    with server(words) as (port, process):
        load(port, 1, 1, kind, body)
        started = time.perf_counter() - start
        start_busy = busy_seconds(process)
        alone = load(port, 1, 300, kind, body)
        load(port, CLIENTS, 1000, kind, body)
        for _ in range(TURNS):
            bares.append(bare(models))
            begun = busy_seconds(process)
            loads.append(load(port, CLIENTS, requests // TURNS, kind, body))
            busy += busy_seconds(process) - begun
            memory.append(resident(process))
    share = statistics.median(one.rate / alike.rate for one, alike in zip(loads, bares, strict=True))
    seconds = busy / (requests // TURNS * TURNS)
    busy_share = 1 / seconds / statistics.median(one.busy_rate for one in bares)
    latencies: list[float] = []
    for one in loads:
        latencies += one.latencies
    latencies.sort()
    slow = latencies[int(0.99 * len(latencies))] / statistics.median(alone.latencies)
    errors = sum(one.errors for one in loads)
    growth = memory[-1] / memory[0]
    least = MIN_SHARES[kind]
    print(f"-- {kind}, {len(models)} model(s), {CLIENTS} clients with one image each")
    print(f"first answer   {started:8.2f} s from the start, {start_busy:.2f} s of processor time")
    print(f"bare network   {statistics.median(one.rate for one in bares):8.0f} images/s on one core")
    print(f"service        {statistics.median(one.rate for one in loads):8.0f} images/s")
    print(f"share          {busy_share:8.2f}   by processor time (at least {least}), {share:.2f} by time")
    print(f"p99            {slow:8.1f}   times a lone request's median (at most {MAX_SLOWDOWN:g})")
    print(f"errors         {errors:8d}   of {len(latencies)}")
    print(f"memory         {growth:8.2f}   times that after a quarter of the requests (at most {MAX_GROWTH})")
    missed = []
    if start_busy > MAX_START_SECONDS:
        missed.append(f"{kind}: start")
    if busy_share < least:
        missed.append(f"{kind}: share")
    if slow > MAX_SLOWDOWN:
        missed.append(f"{kind}: p99")
    if errors:
        missed.append(f"{kind}: errors")
    if growth > MAX_GROWTH:
        missed.append(f"{kind}: memory")
    numbers = {
        "requests": len(latencies),
        "seconds_a_request": seconds,
        "share": busy_share,
        "share_by_time": share,
        "p99": slow,
        "lone_median_seconds": statistics.median(alone.latencies),
        "errors": errors,
        "memory": growth,
        "start_seconds": start_busy,
    }
    return missed, numbers


def measure_workers(
    body: bytes, words: list[str], requests: int, alone: float
) -> tuple[list[str], dict[str, float]]:
    """How much faster two workers are than one; alone: seconds of processor time of one for a request."""
    with server([*words, "--workers", "2"]) as (port, process):
        load(port, CLIENTS, 1000, "raw", body)
        while len(workers_of(process)) < 2:
            time.sleep(0.1)
        load(port, CLIENTS, 1000, "raw", body)
        workers = workers_of(process)
        begun = [busy_seconds(one) for one in workers]
        result = load(port, CLIENTS, requests, "raw", body)
        busy = [busy_seconds(one) - before for one, before in zip(workers, begun, strict=True)]
    speedup = alone * requests / max(busy)
    shares = ", ".join(f"{one / sum(busy):.2f}" for one in busy)
    print(f"two workers    {speedup:8.2f}   times one (at least {MIN_SPEEDUP}); parts of the work: {shares}")
    print(f"errors         {result.errors:8d}   of {requests}")
    missed = []
    if speedup < MIN_SPEEDUP:
        missed.append("two workers")
    if result.errors:
        missed.append("two workers: errors")
    return missed, {"requests": requests, "speedup": speedup, "errors": result.errors}


def store(out: Path, numbers: Mapping[str, Mapping[str, float]]) -> None:
    """Beside what was measured before, in place of what is measured anew."""
    results: dict[str, Any] = {}
    if out.exists():
        results = json.loads(out.read_text())
    out.parent.mkdir(parents=True, exist_ok=True)
    results |= {"torch": torch.__version__, **numbers}
    out.write_text(json.dumps(results, indent=1) + "\n")


def main() -> None:
    """Measure, print, fail where a limit is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("requests", type=int, nargs="?", default=20_000)
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--runtime", default="torch")
    parser.add_argument(
        "--only", nargs="+", choices=["raw", "json", "workers"], default=["raw", "json", "workers"]
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    paths = given.models or list(bundled_paths().values())
    torch.set_num_threads(1)
    models = [TrainedModel.load(path) for path in paths]
    image = torch.randint(256, models[0].input_shape, dtype=torch.uint8)
    bodies = {
        "raw": image.numpy().tobytes(),
        "json": json.dumps({"inputs": [image.tolist()]}, separators=(",", ":")).encode(),
    }
    bare(models)
    served = [*map(str, paths), "--runtime", given.runtime]
    missed: list[str] = []
    found: dict[str, dict[str, float]] = {}
    for kind, body in bodies.items():
        # How much faster two workers are is seen against one that gets raw bytes.
        if kind in given.only or (kind == "raw" and "workers" in given.only):
            too_much, found[f"{kind}, {given.runtime}"] = measure(kind, body, served, models, given.requests)
            missed += too_much
            store(given.out, found)
    if "workers" in given.only:
        alone = found[f"raw, {given.runtime}"]["seconds_a_request"]
        name = f"two workers, {given.runtime}"
        too_much, found[name] = measure_workers(bodies["raw"], served, given.requests, alone)
        missed += too_much
        store(given.out, found)
    if missed:
        print("missed:", ", ".join(missed))
        sys.exit(1)


if __name__ == "__main__":
    main()
