"""How wide a head on a frozen encoder serves best, and how many steps: what it says with classes left out.

python -m tools.head_choices SET A,N [A,N ...] [--samples 10000] [--units 64 512] [--steps 300 1000] [--each]

SET is a set of the study `successors` with a frozen encoder. A head is trained without every N-th class, from
the A-th on, on so many samples of its training part: the set's own OOD data, by which it is judged, are not
used. Each line is the mean over the A,N. --each: every feature is brought to a scale of its own, not all to
one. docs/decisions/0018 has the numbers.
"""

import argparse
import math
import warnings
from dataclasses import replace
from typing import Any

import torch

from nescio import EDL, TrainingSettings
from nescio.data import RowPreprocess, split
from nescio.encoders import MLPSpec
from nescio.inference._frozen import HEAD_DROPOUT, evenly_scaled
from nescio.inference._train import train_network
from nescio.inference.model import untrained_model
from nescio.metrics import summary
from nescio.studies.successors._sets import SETS
from nescio.training.settings import usual_batch_size
from tools.trust_choices import HELD_OUT, auroc, without


def measure(data: Any, left_out: str, samples: int, units: int, steps: int, each: bool) -> list[float]:
    """Accuracy, ECE and NLL on known classes, and AUROC of those left out by u."""
    first, step = map(int, left_out.split(","))
    known, ood = without(data, list(data.classes[first::step]))
    rest, test = split(known, HELD_OUT, 0)
    train = rest.subset(min(samples, len(rest)), torch.Generator().manual_seed(0))
    batch_size = usual_batch_size(len(train))
    settings = TrainingSettings(
        epochs=max(1, round(steps / math.ceil(len(train) / batch_size))),
        batch_size=batch_size,
        learning_rate=1e-3,
        device="cpu",
        precision="float32",
    )
    spec = MLPSpec(train.inputs.shape[1], len(known.classes), (units,), HEAD_DROPOUT)
    model = untrained_model(train.inputs, train.classes, EDL(), spec)
    if not each and isinstance(model.preprocess, RowPreprocess):
        model = replace(model, preprocess=evenly_scaled(model.preprocess))
    model = train_network(model, train, settings, None, None, None)
    of_known = model.predict(test.inputs)
    figures = summary(of_known, model.labels_of(test))
    of_ood = model.predict(ood.inputs)
    found = auroc(of_known.uncertainty, of_ood.uncertainty)
    return [100 * figures["accuracy"], 100 * figures["ece"], figures["nll"], found]


def mean_in_words(found: list[list[float]]) -> str:
    """The mean of what `measure` gave several times."""
    accuracy, ece, nll, auroc_by_u = torch.tensor(found).mean(0).tolist()
    return f"accuracy {accuracy:.2f} %, ECE {ece:.2f} %, NLL {nll:.3f}, AUROC by u {auroc_by_u:.4f}"


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("set", choices=[name for name, one in SETS.items() if one.known.features])
    parser.add_argument("left_out", nargs="+", metavar="A,N")
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--units", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--steps", type=int, nargs="+", default=[300, 1_000])
    parser.add_argument("--each", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    data = SETS[given.set].known.load("train")
    for units in given.units:
        for steps in given.steps:
            found = []
            for left_out in given.left_out:
                found.append(measure(data, left_out, given.samples, units, steps, given.each))
            print(f"{units:4d} units, {steps:5d} steps: {mean_in_words(found)}", flush=True)


if __name__ == "__main__":
    main()
