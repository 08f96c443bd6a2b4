"""What the service counts, for Prometheus."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

SHARED = "PROMETHEUS_MULTIPROC_DIR"  # set where several processes count together
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counters of one application; in several processes, the sums of all."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._of_path: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
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
            buckets=SIZES,
        )
        self._waiting = Gauge(
            "nescio_waiting",
            "Inputs in the queue.",
            registry=self._registry,
            multiprocess_mode="livesum",
        )

    def request(self, path: str, status: int, seconds: float) -> None:
        """A request was answered."""
        counters = self._of_path.get((path, status))
        if counters is None:
            counters = self._requests.labels(path, status), self._seconds.labels(path)
            self._of_path[path, status] = counters
        counters[0].inc()
        counters[1].observe(seconds)

    def batch(self, model: str, accepted: Sequence[bool]) -> None:
        """A model gave opinions on a batch."""
        stood = sum(accepted)
        self._batches.labels(model).observe(len(accepted))
        self._opinions.labels(model, "true").inc(stood)
        self._opinions.labels(model, "false").inc(len(accepted) - stood)

    def waiting(self, inputs: int) -> None:
        """So many inputs are in the queue."""
        self._waiting.set(inputs)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        if SHARED not in os.environ:
            return generate_latest(self._registry)
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared)


def forget_the_dead() -> None:
    """What a process had waiting when it was killed would stay in the sum for ever."""
    for path in Path(os.environ[SHARED]).glob("gauge_live*.db"):
        process = int(path.stem.rpartition("_")[2])
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            mark_process_dead(process)  # type: ignore[no-untyped-call]
