"""What a training step and a prediction of each method cost on the MNIST LeNet, as ratios to L2's.

python -m benchmarks.methods     writes benchmarks/results/methods.json

Batches of 256, all taken in turns within one run, in seconds of the processor with one thread; before each
that counts comes one that does not. A step: loss, gradients, optimiser, of all members. A prediction: as
`TrainedModel.predict` makes it, with the method's usual number of samples.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from nescio.encoders import LeNetSpec
from nescio.methods import METHODS, Batch, Dropout, Ensemble, Method, make_method

BATCH = 256
SIZE = 60_000  # of the training data
REPETITIONS = 15
RESULTS = Path(__file__).parent / "results" / "methods.json"


@dataclass(frozen=True)
class Promise:
    """This work costs at most so many times that one, which is softmax's of the same kind."""

    work: str
    unit: str
    most: float


PROMISES = (
    Promise("ffgu step", "softmax step", 2.6),
    Promise("fflu step", "softmax step", 2.6),
    Promise("mnfg step", "softmax step", 3.2),
    Promise("ensemble step", "softmax step", Ensemble().num_members * 2.2),
    Promise("dropout prediction", "softmax prediction", Dropout().samples * 1.05),
)


def step_of(method: Method) -> Callable[[], None]:
    """A training step of every member on one batch."""
    network = method.default_encoder(LeNetSpec())
    torch.manual_seed(0)
    module = method.build(network).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    members = method.members(module)
    optimizers = [torch.optim.Adam(member.parameters(), fused=True) for member in members]
    images = torch.rand(BATCH, *network.input_shape).contiguous(memory_format=torch.channels_last)
    batch = Batch(images, torch.randint(network.num_classes, (BATCH,)), None, torch.ones(1))

    def step() -> None:
        for member, optimizer in zip(members, optimizers, strict=True):
            optimizer.zero_grad()
            torch.autograd.backward(method.objective(member, batch, 1.0, SIZE)[0])
            optimizer.step()

    return step


def prediction_of(method: Method) -> Callable[[], None]:
    """A prediction for one batch."""
    network = method.default_encoder(LeNetSpec())
    module = method.build(network).eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = torch.rand(BATCH, *network.input_shape).contiguous(memory_format=torch.channels_last)
    generator = torch.Generator().manual_seed(0)

    @torch.inference_mode()
    def predict() -> None:
        method.predict(module, images, generator)

    return predict


def works() -> dict[str, Callable[[], None]]:
    """All that is measured, by name."""
    methods = [make_method(name) for name in METHODS]
    steps = {f"{method.name} step": step_of(method) for method in methods}
    return steps | {f"{method.name} prediction": prediction_of(method) for method in methods}


def times_in_turns(all_works: dict[str, Callable[[], None]], repetitions: int) -> dict[str, list[float]]:
    """Seconds of each work in each round."""
    times: dict[str, list[float]] = {name: [] for name in all_works}
    for _ in range(repetitions):
        for name, work in all_works.items():
            work()  # what the work before it left in the caches would count as its own
            start = time.process_time()
            work()
            times[name].append(time.process_time() - start)
    return times


def main() -> None:
    """Measure, print, keep the ratios, and end with 1 where a promise is missed."""
    torch.set_num_threads(1)
    times = times_in_turns(works(), REPETITIONS)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    ratios = {name: seconds / medians[f"softmax {name.split()[1]}"] for name, seconds in medians.items()}
    for name, seconds in medians.items():
        print(f"{name:20} {1e3 * seconds:8.1f} ms   {ratios[name]:6.2f} x softmax's")
    for promise in PROMISES:
        print(f"{promise.work} / {promise.unit}: {ratios[promise.work]:.2f} (at most {promise.most:g})")
    kept = {"threads": torch.get_num_threads(), "ratios": {name: round(r, 2) for name, r in ratios.items()}}
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    sys.exit(any(ratios[promise.work] > promise.most for promise in PROMISES))


if __name__ == "__main__":
    main()
