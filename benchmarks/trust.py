"""What trust costs: the time of a prediction with it and without it, and by how much the model file grows.

python -m benchmarks.trust [--out FILE.json]

One thread, and the time of the processor, since by the clock other work on the machine would count too. The
paper's LeNet for digits, untrained: weights make no difference to its speed. The limits: a prediction of a
batch takes at most 1.3 times as long, the file grows by at most 2 MB.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor

from nescio import LeNetSpec, TrainedModel
from nescio.data import Dataset, StoredArray
from nescio.inference.model import untrained_model

MOST_TIMES = 1.3
MOST_MEGABYTES = 2.0
BATCHES = (1, 64, 1024)
TRAIN = 9_000
HELD_OUT = 5_000
REPETITIONS = 15


def drawn(count: int, seed: int) -> Dataset:
    """Images of noise in ten classes."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (count, 1, 28, 28), generator=generator, dtype=torch.uint8)
    return Dataset(images, torch.arange(count) % 10, tuple("0123456789"), "noise")


def seconds(model: TrainedModel, images: Tensor | StoredArray) -> float:
    """Of the processor, for one prediction."""
    begin = time.thread_time()
    model.predict(images)
    return time.thread_time() - begin


def size_of(model: TrainedModel) -> float:
    """Of the model file, in MB."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        model.save(path)
        return path.stat().st_size / 1e6


def main() -> None:
    """Measure, print, and end with 1 where the default misses a limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    plain = untrained_model(drawn(10, 0).images, tuple("0123456789"), "edl", LeNetSpec())
    results = {}
    for kind in ("gaussians", "neighbours"):
        model = plain.calibrated(drawn(TRAIN, 0), drawn(HELD_OUT, 1), kind=kind)
        found = {"megabytes": size_of(model) - size_of(plain)}
        for batch in BATCHES:
            images = drawn(batch, 2).images
            ratios = []
            for _ in range(REPETITIONS):  # in turns, so that other work on the machine meets both alike
                without = seconds(plain, images)
                ratios.append(seconds(model, images) / without)
            found[f"times, {batch} at once"] = statistics.median(ratios)
        results[kind] = found
        print(kind, {name: round(value, 2) for name, value in found.items()}, flush=True)
    if given.out is not None:
        given.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    usual = results["gaussians"]
    is_slow = usual[f"times, {BATCHES[-1]} at once"] > MOST_TIMES
    sys.exit(int(is_slow or usual["megabytes"] > MOST_MEGABYTES))


if __name__ == "__main__":
    main()
