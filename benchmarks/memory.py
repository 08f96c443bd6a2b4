"""Freed memory that is kept beside memory that goes back to the kernel: pages, and ratios of processor time.

python -m benchmarks.memory

One thread. Measured are training steps of the paper's large network on batches like CIFAR5's, and the
features of photos by EfficientNet-lite0. Each way has processes of its own, in turns: a heap that has grown
stays. The limit: each at least 1.1 times as fast with memory that is kept. On systems without glibc both ways
are the same, and the limit is missed.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch

from nescio import EvidentialLoss
from nescio._memory import freed_memory_kept
from nescio.encoders import EfficientNetLite0Spec, LeNetSpec
from nescio.inference._frozen import IMAGES_BATCH, build_encoder, encode

LEAST_TIMES = 1.1
TURNS = 3
WARM_UP = 3
CALLS = 10
BATCH = 128


def training_step() -> Callable[[], object]:
    """One step on a batch of images."""
    network = LeNetSpec.cifar5().build().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    loss = EvidentialLoss(5)
    optimizer = torch.optim.Adam(network.parameters(), fused=True)
    images = torch.rand(BATCH, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 5, (BATCH,))

    def step() -> None:
        optimizer.zero_grad()
        torch.autograd.backward(loss(network(images), labels, epoch=1.0))
        optimizer.step()

    return step


def encoding() -> Callable[[], object]:
    """The features of photos of 128 x 128."""
    spec = EfficientNetLite0Spec(128, 128)
    module = build_encoder(spec)
    photos = torch.rand(IMAGES_BATCH, 3, 128, 128).contiguous(memory_format=torch.channels_last)

    def features() -> None:
        with torch.inference_mode():
            encode(spec, module, photos)

    return features


WORKS: dict[str, Callable[[], Callable[[], object]]] = {
    "training steps": training_step,
    "features of photos": encoding,
}
MEMORY: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "kept": freed_memory_kept,
    "given back": nullcontext,
}


class Cost(NamedTuple):
    """Of one call: seconds of the processor, and pages that the kernel had to hand out."""

    seconds: float
    pages: float


def cost(work: Callable[[], object], memory: AbstractContextManager[None]) -> Cost:
    """The mean of some calls, once the heap has grown."""
    with memory:
        for _ in range(WARM_UP):
            work()
        pages = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        begin = time.process_time()
        for _ in range(CALLS):
            work()
        seconds = time.process_time() - begin
        pages = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - pages
    return Cost(seconds / CALLS, pages / CALLS)


def cost_in_a_process(work: str, memory: str) -> Cost:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.memory", "--one", work, memory]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return Cost(*map(float, printed.split()))


def main() -> None:
    """Measure, print, and end with 1 where the limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        work, memory = given.one
        print(*cost(WORKS[work](), MEMORY[memory]()))
        return
    missed = False
    for work in WORKS:
        given_back = []
        kept = []
        for _ in range(TURNS):
            given_back.append(cost_in_a_process(work, "given back"))
            kept.append(cost_in_a_process(work, "kept"))
        pages = [statistics.median(each.pages for each in costs) for costs in (given_back, kept)]
        ratios = [before.seconds / now.seconds for before, now in zip(given_back, kept, strict=True)]
        found = statistics.median(ratios)
        missed = missed or found < LEAST_TIMES
        print(f"{work}: {pages[0]:.0f} -> {pages[1]:.0f} pages, {found:.2f} times as fast", flush=True)
    sys.exit(int(missed))


if __name__ == "__main__":
    main()
