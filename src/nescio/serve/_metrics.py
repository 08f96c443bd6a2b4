"""What the service counts, for Prometheus."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

SHARED_DIR = "PROMETHEUS_MULTIPROC_DIR"  # set in the environment where several processes count together
_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counters of one application; in several processes, the sums of all."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        # Counters by path and status: prometheus_client takes long to find them by their labels.
        self._by_path: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._requests = Counter(
            "nescio_requests", "Requests by path and status.", ("path", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "nescio_request_seconds", "From request to answer.", ("path",), registry=self._registry
        )
        self._opinions = Counter(
            "nescio_opinions",
            "Opinions by model, and whether it stood by its answer.",
            ("model", "accepted"),
            registry=self._registry,
        )
        self._batches = Histogram(
            "nescio_batch_size",
            "Inputs that shared a forward pass.",
            ("model",),
            registry=self._registry,
            buckets=_BATCH_SIZES,
        )
        self._waiting = Gauge(
            "nescio_waiting",
            "Inputs in the queue.",
            registry=self._registry,
            multiprocess_mode="livesum",
        )

    def count_request(self, path: str, status: int, seconds: float) -> None:
        counters = self._by_path.get((path, status))
        if counters is None:
            counters = (self._requests.labels(path, status), self._seconds.labels(path))
            self._by_path[path, status] = counters
        requests, histogram = counters
        requests.inc()
        histogram.observe(seconds)

    def count_batch(self, model: str, accepted: Sequence[bool]) -> None:
        """accepted: for each input of the batch, whether the model stood by its answer."""
        num_accepted = sum(accepted)
        self._batches.labels(model).observe(len(accepted))
        self._opinions.labels(model, "true").inc(num_accepted)
        self._opinions.labels(model, "false").inc(len(accepted) - num_accepted)

    def set_waiting(self, num_inputs: int) -> None:
        self._waiting.set(num_inputs)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        if SHARED_DIR not in os.environ:
            return generate_latest(self._registry)
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared)


def remove_dead_processes() -> None:
    """What a process had waiting when it was killed would stay in the sum for ever."""
    for path in Path(os.environ[SHARED_DIR]).glob("gauge_live*.db"):
        process = int(path.stem.rpartition("_")[2])
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            mark_process_dead(process)  # type: ignore[no-untyped-call]
