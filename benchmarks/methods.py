"""What a training step of each method costs on the MNIST LeNet, batches of 256, as a ratio to L2's.

python -m benchmarks.methods

All are taken in turns within one run. A step: loss, gradients, optimiser.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from evidentia.methods import FFGU, FFLU, L2, MNFG, Batch, Method
from evidentia.nets import LeNetSpec

BATCH, SIZE, REPETITIONS = 256, 60_000, 15
NETWORK = LeNetSpec(dropout=0.0)


@dataclass(frozen=True)
class Promise:
    """This work costs at most so many times that one."""

    work: str
    unit: str
    most: float


PROMISES = (
    Promise("ffgu step", "l2 step", 2.6),
    Promise("fflu step", "l2 step", 2.6),
    Promise("mnfg step", "l2 step", 3.2),
)


def step_of(method: Method) -> Callable[[], None]:
    """A training step on one batch."""
    torch.manual_seed(0)
    module = method.build(NETWORK).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.Adam(module.parameters(), fused=True)
    images = torch.randn(BATCH, *NETWORK.input_shape).contiguous(memory_format=torch.channels_last)
    batch = Batch(images, torch.randint(NETWORK.num_classes, (BATCH,)))

    def step() -> None:
        optimizer.zero_grad()
        torch.autograd.backward(method.objective(module, batch, 1.0, SIZE)[0])
        optimizer.step()

    return step


def works() -> dict[str, Callable[[], None]]:
    """All that is measured, by name."""
    return {f"{method.name} step": step_of(method) for method in (L2(), FFGU(), FFLU(), MNFG())}


def times_in_turns(all_works: dict[str, Callable[[], None]], repetitions: int) -> dict[str, list[float]]:
    """Seconds of each work in each round, without the first."""
    times: dict[str, list[float]] = {name: [] for name in all_works}
    for _ in range(repetitions + 1):
        for name, work in all_works.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return {name: taken[1:] for name, taken in times.items()}


def main() -> None:
    """Measure, print a table and a line of JSON, and end with 1 where a promise is missed."""
    times = times_in_turns(works(), REPETITIONS)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    for name, seconds in medians.items():
        print(f"{name:12} {1e3 * seconds:8.1f} ms")
    ratios = {promise.work: medians[promise.work] / medians[promise.unit] for promise in PROMISES}
    for promise in PROMISES:
        name = f"{promise.work} / {promise.unit}"
        print(f"{name:24} {ratios[promise.work]:6.2f}   (at most {promise.most})")
    print(json.dumps({"ratios": {name: round(ratio, 3) for name, ratio in ratios.items()}}))
    sys.exit(any(ratios[promise.work] > promise.most for promise in PROMISES))


if __name__ == "__main__":
    main()
