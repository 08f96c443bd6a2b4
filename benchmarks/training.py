"""Speed of training and prediction on the MNIST LeNet, batches of 256: ratios within one run.

python -m benchmarks.training

Compared, in turns: our loop with the evidential loss; the same with images that lie on the disk and are read
ahead; our loop with cross-entropy; the usual loop (float32, a DataLoader over a data set that hands out one
sample at a time, contiguous tensors, Adam as it comes). And `TrainedModel.predict` against the bare network's
forward pass on inputs that are ready.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as SampleDataset

from nescio.data import StoredArray
from nescio.data.preprocess import Preprocess
from nescio.encoders import LeNetSpec
from nescio.inference.model import TrainedModel
from nescio.methods import EDL, Method, Softmax
from nescio.training import Samples, TrainingSettings, as_input
from nescio.training._loop import Loop

SAMPLES, BATCH, EPOCHS, REPETITIONS = 5120, 256, 15, 7
MOST_TO_CROSS_ENTROPY, LEAST_TO_USUAL, MOST_TO_FORWARD = 1.05, 2.5, 1.03
LEAST_FROM_DISK = 0.8


class OneByOne(SampleDataset[tuple[Tensor, int]]):
    """As tutorials do it: an image is turned into a normalised float tensor when it is asked for."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self.images = samples.read()

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = self.images[index].float().div(255)
        return (image - 0.1307) / 0.3081, int(self.samples.labels[index])


def usual_epoch(samples: Samples) -> Callable[[], None]:
    """The usual loop."""
    network = LeNetSpec().build()
    optimizer = torch.optim.Adam(network.parameters())
    loader = DataLoader(OneByOne(samples), batch_size=BATCH, shuffle=True)

    def epoch() -> None:
        network.train()
        for images, labels in loader:
            optimizer.zero_grad()
            torch.autograd.backward(cross_entropy(network(images), labels))
            optimizer.step()

    return epoch


def our_epoch(method: Method, samples: Samples) -> Callable[[], None]:
    """The library's loop."""
    preprocess = Preprocess.fit(samples.read())
    settings = TrainingSettings(epochs=EPOCHS, batch_size=BATCH).resolved(len(samples))
    loop = Loop(method, method.build(LeNetSpec()), preprocess, settings)
    return lambda: void(loop.epoch(samples, 0))


def void(_: object) -> None:
    """Nothing."""


def medians(works: dict[str, Callable[[], None]], repetitions: int = REPETITIONS) -> dict[str, float]:
    """Seconds for each, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repetitions + 1):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken[1:]) for name, taken in times.items()}


def prediction_ratio(samples: Samples) -> float:
    """predict on raw images against the bare forward pass on inputs made ready before."""
    preprocess = Preprocess.fit(samples.read())
    network = LeNetSpec().build().eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    classes = tuple("0123456789")
    model = TrainedModel(network, EDL(), classes, preprocess, LeNetSpec())
    ready = [as_input(part, preprocess) for part in torch.split(samples.read(), 1024)]

    @torch.inference_mode()
    def forward() -> None:
        for part in ready:
            network(part)

    taken = medians({"forward": forward, "predict": lambda: void(model.predict(samples.read()))}, 15)
    return taken["predict"] / taken["forward"]


def main() -> None:
    """Measure, print, and end with 1 where a promise is missed."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (SAMPLES, 1, 28, 28), generator=generator, dtype=torch.uint8)
    samples = Samples(images, torch.randint(10, (SAMPLES,), generator=generator))
    folder = tempfile.TemporaryDirectory()
    stored = StoredArray.write(Path(folder.name, "images.npy"), images)
    works = {
        "evidential": our_epoch(EDL(), samples),
        "from the disk": our_epoch(EDL(), Samples(stored, samples.labels)),
        "cross-entropy": our_epoch(Softmax(), samples),
        "usual loop": usual_epoch(samples),
    }
    taken = medians(works)
    folder.cleanup()
    from_disk = taken["evidential"] / taken["from the disk"]
    to_cross_entropy = taken["evidential"] / taken["cross-entropy"]
    to_usual = taken["usual loop"] / taken["evidential"]
    to_forward = prediction_ratio(samples)
    for name, seconds in taken.items():
        print(f"{name:14} {1e3 * seconds:8.1f} ms for {SAMPLES} images")
    print(f"evidential / cross-entropy {to_cross_entropy:6.3f}   (at most {MOST_TO_CROSS_ENTROPY})")
    print(f"usual / evidential         {to_usual:6.2f}   (at least {LEAST_TO_USUAL})")
    print(f"in memory / from the disk  {from_disk:6.2f}   (at least {LEAST_FROM_DISK})")
    print(f"predict / bare forward     {to_forward:6.3f}   (at most {MOST_TO_FORWARD})")
    kept = to_cross_entropy <= MOST_TO_CROSS_ENTROPY and to_usual >= LEAST_TO_USUAL
    kept = kept and from_disk >= LEAST_FROM_DISK
    sys.exit(not (kept and to_forward <= MOST_TO_FORWARD))


if __name__ == "__main__":
    main()
