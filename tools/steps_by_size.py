"""Which batch size and how many epochs serve data of some size: held-out accuracy of EDL.

python tools/steps_by_size.py DATA SAMPLES [--classes K] [--batch-size B --epochs E] [--seeds N]

DATA is iris or wine (of scikit-learn) or a data set of the catalog; --classes takes its first K classes.
Without a batch size and epochs it takes what `TrainingSettings.resolved` chooses. docs/decisions/0019 has the
numbers.
"""

import argparse
import statistics
import warnings

import sklearn.datasets
import torch
from torch import Tensor

from nescio import EDL, TrainedModel, TrainingSettings
from nescio.data import Dataset, Table, load

FIRST_SPLIT = 100
MOST_HELD_OUT = 4_000


def load_any(name: str) -> Dataset | Table:
    """A data set by its name."""
    if name not in ("iris", "wine"):
        return load(name)
    rows, labels = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    features = torch.tensor(rows, dtype=torch.float32)
    classes = tuple(str(label) for label in sorted(set(labels.tolist())))
    return Table(features, torch.tensor(labels), classes, name)


def parts_of(data: Dataset | Table, samples: int, seed: int) -> tuple[Tensor, Tensor]:
    """The positions of samples to train on, and of others to measure with."""
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(FIRST_SPLIT + seed))
    return order[:samples], order[samples : samples + MOST_HELD_OUT]


def main() -> None:
    """Train, measure, print one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("samples", type=int)
    parser.add_argument("--classes", type=int)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # too short trainings are among those that are compared
    torch.set_num_threads(1)
    data = load_any(given.data)
    if given.classes is not None:
        data = data.only(data.classes[: given.classes])
    network = "mlp" if isinstance(data, Table) else "lenet"
    found = []
    for seed in range(given.seeds):
        train, held_out = parts_of(data, given.samples, seed)
        settings = TrainingSettings(given.epochs, given.batch_size, seed=seed, precision="float32")
        settings = settings.resolved(given.samples)
        model = TrainedModel.train(data.take(train), EDL(), network, settings)
        rest = data.take(held_out)
        found.append(float((model.predict(rest.inputs).labels == rest.labels).double().mean()))
    print(
        f"{given.data}, {given.samples} samples: batches of {settings.batch_size}, {settings.epochs} epochs: "
        f"held-out accuracy {statistics.mean(found):.4f}"
    )


if __name__ == "__main__":
    main()
