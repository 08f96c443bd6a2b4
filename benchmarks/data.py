"""Loading CIFAR-10 from the cache, against a plain read of the same bytes: time and peak memory.

python -m benchmarks.data
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from nescio._fetch.store import fetch
from nescio.data import load
from nescio.data._catalog import CIFAR10, DIGITS

REPETITIONS = 15
MOST_READS, MOST_MEMORY = 3, 1.3
PEAK = """
from pathlib import Path
from nescio.data import load
def peak():  # of this process alone, unlike ru_maxrss, which a child takes over from its parent
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
load("digits", "test")  # what the first load costs once
before = peak()
images = load("cifar10").images
print((peak() - before) / images.nbytes)
"""


def seconds(work: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def plain_read(paths: list[Path]) -> None:
    """The bytes of the files, and nothing else."""
    for path in paths:
        path.read_bytes()


def main() -> None:
    """Measure in turns, print the ratios, fail where one is over its limit."""
    fetch(DIGITS)
    home = fetch(CIFAR10)
    paths = [home / file.name for file in CIFAR10.splits["train"]]
    pairs = [
        (seconds(lambda: plain_read(paths)), seconds(lambda: load("cifar10"))) for _ in range(REPETITIONS)
    ]
    read, loaded = (statistics.median(times) for times in zip(*pairs, strict=True))
    child = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)
    ratio, peak = loaded / read, float(child.stdout)
    print(f"plain read of the bytes  {read * 1e3:7.1f} ms")
    print(f"load('cifar10')          {loaded * 1e3:7.1f} ms   {ratio:.2f} x the read (at most {MOST_READS})")
    print(f"peak memory              {peak:7.2f} x the array's bytes (at most {MOST_MEMORY})")
    if ratio > MOST_READS or peak > MOST_MEMORY:
        sys.exit(1)


if __name__ == "__main__":
    main()
