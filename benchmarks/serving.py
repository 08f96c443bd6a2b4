"""Load on the service, on loopback: single images from 64 clients at once, against the bare network.

python -m benchmarks.serving [REQUESTS] [MODEL...]     # default: 20,000 and the bundled pair

The bare network is the same models' forward passes in a loop over batches that are ready, on one core; a
client in a process of its own is left another. Images per second are compared in turns; and, since that is
disturbed where cores are not free, images per second of the server's own processor time. Also looked at:
errors, the slowest hundredth of the requests, whether the server's memory stays level, and the time from its
start to the first answer.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from nescio.inference.model import TrainedModel
from nescio.serve._models import bundled_paths
from nescio.training import as_input

CLIENTS = 64
BATCH = 64
TURNS = 4
MIN_SHARE = 0.6
MAX_SLOWDOWN = 20.0
MAX_GROWTH = 1.1
MAX_START_SECONDS = 5.0
LOAD_TIMEOUT = 600  # seconds; a server that no longer answers is an error
SERVE = (sys.executable, "-c", "from nescio.cli.app import main; main()", "serve", "--port", "0")


@dataclass(frozen=True)
class LoadResult:
    """One load: requests per second, seconds of each, and how many were not answered well."""

    rate: float
    latencies: list[float]
    errors: int


@contextmanager
def server(paths: list[Path]) -> Iterator[tuple[int, int]]:
    """The service in a process of its own, on one core as the bare network: its port and process number."""
    command = [*SERVE, *map(str, paths)]
    one_core = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=one_core) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split(" at ")[1].split()[0]
        try:
            yield int(address.rpartition(":")[2]), process.pid
        finally:
            process.terminate()


def load(port: int, clients: int, requests: int, body: bytes) -> LoadResult:
    """So many requests from so many connections."""
    words = ("benchmarks.serving_client", str(port), str(clients), str(requests))
    command = (sys.executable, "-m", *words)
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


def main() -> None:
    """Measure in turns, print, fail where a limit is missed."""
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    paths = [Path(word) for word in sys.argv[2:]] or list(bundled_paths().values())
    torch.set_num_threads(1)
    models = [TrainedModel.load(path) for path in paths]
    image = torch.randint(256, models[0].input_shape, dtype=torch.uint8)
    body = json.dumps({"inputs": [image.tolist()]}, separators=(",", ":")).encode()
    bare(models)
    bares: list[Bare] = []
    loads: list[LoadResult] = []
    memory: list[int] = []
    start = time.perf_counter()
    with server(paths) as (port, process):
        load(port, 1, 1, body)
        started = time.perf_counter() - start
        start_busy = busy_seconds(process)
        alone = load(port, 1, 300, body)
        load(port, CLIENTS, 1000, body)
        begun = busy_seconds(process)
        for _ in range(TURNS):
            bares.append(bare(models))
            loads.append(load(port, CLIENTS, requests // TURNS, body))
            memory.append(resident(process))
        busy = busy_seconds(process) - begun
    share = statistics.median(one.rate / alike.rate for one, alike in zip(loads, bares, strict=True))
    busy_share = requests // TURNS * TURNS / busy / statistics.median(one.busy_rate for one in bares)
    latencies: list[float] = []
    for one in loads:
        latencies += one.latencies
    latencies.sort()
    slow = latencies[int(0.99 * len(latencies))] / statistics.median(alone.latencies)
    errors = sum(one.errors for one in loads)
    growth = memory[-1] / memory[0]
    rate = statistics.median(one.rate for one in bares)
    print(f"first answer   {started:8.2f} s from the start (at most {MAX_START_SECONDS:g})")
    print(f"               {start_busy:8.2f} s of processor time")
    print(f"bare network   {rate:8.0f} images/s on one core, {len(paths)} model(s)")
    print(f"service        {statistics.median(one.rate for one in loads):8.0f} images/s, {CLIENTS} clients")
    print(f"share          {share:8.2f}   (at least {MIN_SHARE})")
    print(f"               {busy_share:8.2f}   by processor time")
    print(f"p99            {slow:8.1f}   times a lone request's median (at most {MAX_SLOWDOWN:g})")
    print(f"errors         {errors:8d}   of {len(latencies)}")
    print(f"memory         {growth:8.2f}   times that after a quarter of the requests (at most {MAX_GROWTH})")
    late = started > MAX_START_SECONDS
    if late or share < MIN_SHARE or slow > MAX_SLOWDOWN or errors or growth > MAX_GROWTH:
        sys.exit(1)


if __name__ == "__main__":
    main()
