"""A DataLoader and a network of your own: `from_torch` takes what your PyTorch program has already.

    python examples/dataloader.py

The data are 1,797 handwritten digits of 8 x 8 pixels that come with scikit-learn. The network learns 0 to 7;
8 and 9 are unknown to it. Expect seconds, an accuracy of 0.983 on digits that were held out, and an AUROC of
0.964 of the unknown ones by their uncertainty.
"""

import argparse
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nescio import TrainedModel, TrainingSettings, data, metrics


class Digits(Dataset[tuple[Tensor, int]]):
    """Some of the digits; a data set like any other of PyTorch."""

    def __init__(self, wanted: range) -> None:
        images, labels = load_digits(return_X_y=True)
        is_wanted = (labels >= wanted.start) & (labels < wanted.stop)
        self.images = torch.tensor(images[is_wanted], dtype=torch.float32).view(-1, 1, 8, 8)
        self.labels = labels[is_wanted] - wanted.start
        self.classes = [str(digit) for digit in wanted]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index], int(self.labels[index])


def main() -> None:
    """Read two loaders, train a network of our own on one, and test it on both."""
    parser = argparse.ArgumentParser(description="Train on a DataLoader of your own.")
    parser.add_argument(
        "--out", type=Path, default=Path("digits.safetensors"), help="the model file to write"
    )
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args()

    known = data.from_torch(DataLoader(Digits(range(8)), batch_size=64), name="digits 0 to 7")
    unknown = data.from_torch(DataLoader(Digits(range(8, 10)), batch_size=64), name="digits 8 and 9")
    train, test = data.split(known, 0.2, seed=0)

    torch.manual_seed(0)
    convolution = nn.Conv2d(1, 32, 3)
    network = nn.Sequential(convolution, nn.ReLU(), nn.Flatten(), nn.Linear(1152, 8))
    model = TrainedModel.train(train, network=network, settings=TrainingSettings(epochs=options.epochs))
    of_known = model.predict(model.preprocess.inputs_of(test))
    of_unknown = model.predict(model.preprocess.inputs_of(unknown))
    print(f"accuracy: {metrics.accuracy(of_known, test.labels):.3f}")
    print(f"AUROC of 8 and 9: {metrics.detection(of_known.uncertainty, of_unknown.uncertainty).auroc:.3f}")
    model.save(
        options.out
    )  # the weights; to load, give the network: TrainedModel.load(path, network=network)
    print(f"saved: {options.out}")


if __name__ == "__main__":
    main()
