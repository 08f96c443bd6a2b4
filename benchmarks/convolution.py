"""Convolutions by Fourier transforms beside torch's own: forward and backward, where each is the faster.

python -m benchmarks.convolution [--out FILE.json]

One thread, and the time of the processor, since by the clock other work on the machine would count too. The
limit: at the shape of the paper's large network at least twice as fast as torch's. The other shapes show
where `nescio.encoders._fourier` draws its line.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from nescio.encoders._fourier import fourier_conv2d

LEAST_TIMES = 2.0
REPETITIONS = 5


class Shape(NamedTuple):
    """Images (batch, channels, side, side), as many channels again, kernels of kernel x kernel."""

    channels: int
    kernel: int
    side: int
    batch: int


PAPER = Shape(channels=192, kernel=5, side=14, batch=128)
SHAPES = (
    PAPER,
    *(PAPER._replace(channels=channels) for channels in (16, 32, 64, 96)),
    *(PAPER._replace(kernel=kernel) for kernel in (3, 4, 7)),
    *(PAPER._replace(side=side) for side in (8, 20, 24, 28)),
    *(PAPER._replace(batch=batch) for batch in (1, 8, 16, 32)),
)


def seconds(convolution: Callable[[Tensor, Tensor], Tensor], images: Tensor, weight: Tensor) -> float:
    """Of the processor, for one pass forward and one backward."""
    images.grad = None
    weight.grad = None
    begin = time.thread_time()
    convolution(images, weight).sum().backward()  # type: ignore[no-untyped-call]
    return time.thread_time() - begin


def ratio(shape: Shape) -> float:
    """Time of torch's convolution divided by that of the transforms, the median of turns."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(shape.batch, shape.channels, shape.side, shape.side, generator=generator)
    weight = torch.randn(shape.channels, shape.channels, shape.kernel, shape.kernel, generator=generator)
    images = images.to(memory_format=torch.channels_last).requires_grad_()
    weight = weight.to(memory_format=torch.channels_last).requires_grad_()
    # Once each beforehand: ours makes its matrices then, torch's chooses its kernel.
    seconds(fourier_conv2d, images, weight)
    seconds(functional.conv2d, images, weight)
    ratios = []
    for _ in range(REPETITIONS):
        direct = seconds(functional.conv2d, images, weight)
        ratios.append(direct / seconds(fourier_conv2d, images, weight))
    return statistics.median(ratios)


def main() -> None:
    """Measure, print, and end with 1 where the limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    for shape in SHAPES:
        found = ratio(shape)
        results.append({**shape._asdict(), "times as fast": found})
        print(f"{shape}: {found:.2f} times as fast as torch's", flush=True)
    if given.out is not None:
        given.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    sys.exit(int(results[0]["times as fast"] < LEAST_TIMES))


if __name__ == "__main__":
    main()
