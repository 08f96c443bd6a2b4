"""Train the pair of models that comes with the service, and write them into the package.

python tools/bundle_models.py [METHOD...]     # these alone; then, as always, look at both
python tools/bundle_models.py --look          # look at both, train nothing

Both are one LeNet with a smaller hidden layer, trained on MNIST as `nescio train` does it. They are the
only weights that the project keeps. Ends with 1 where they are too large or too weak, or softmax doubts too
much.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from nescio.data import load
from nescio.encoders import LeNetSpec
from nescio.inference.model import TrainedModel
from nescio.methods import make_method
from nescio.training import TrainingSettings

HOME = Path(__file__).parents[1] / "src" / "nescio" / "serve" / "models"
METHODS: dict[str, dict[str, Any]] = {
    "edl": {"risk": "squared_error", "divergence_weight": 1.0},  # the paper's loss, as in its study
    "softmax": {},
}
NETWORK = LeNetSpec(hidden=300)
SETTINGS = TrainingSettings()
MAX_BYTES = 3_000_000
MIN_ACCURACY = 0.992
MIN_RATIO = 3.0


def train(name: str) -> None:
    """One model, from MNIST into the package."""
    print(f"training {name}", flush=True)
    method = make_method(name, **METHODS[name])
    model = TrainedModel.train(load("mnist"), method, NETWORK, SETTINGS, report=show)
    model.save(HOME / f"{name}.safetensors")


def show(metrics: dict[str, float]) -> None:
    """One line for an epoch."""
    print("  ".join(f"{name} {value:.4g}" for name, value in metrics.items()), flush=True)


def accuracy(model: TrainedModel) -> float:
    """On the test images of MNIST."""
    test = load("mnist", "test")
    return float((model.predict(test.images).labels == model.labels_of(test)).float().mean())


def doubt(model: TrainedModel) -> float:
    """The mean normalised entropy on letters, which the model can't know."""
    return float(model.predict(load("notmnist", "test").images).entropy(normalized=True).mean())


def main() -> None:
    """Train what is named, or both, unless told to look only; then look at both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("methods", nargs="*", metavar="METHOD", help=" or ".join(METHODS))
    parser.add_argument("--look", action="store_true")
    given = parser.parse_args()
    for name in given.methods:
        if name not in METHODS:
            parser.error(f"METHOD must be {' or '.join(METHODS)}, got {name!r}")
    if not given.look:
        for name in given.methods or METHODS:
            train(name)
    paths = {name: HOME / f"{name}.safetensors" for name in METHODS}
    models = {name: TrainedModel.load(path) for name, path in paths.items()}
    size = sum(path.stat().st_size for path in paths.values())
    known = {name: accuracy(model) for name, model in models.items()}
    doubts = {name: doubt(model) for name, model in models.items()}
    ratio = doubts["edl"] / doubts["softmax"]
    for name in METHODS:
        print(f"{name:8s} accuracy on MNIST {known[name]:.4f}, entropy on notMNIST {doubts[name]:.3f}")
    print(f"EDL doubts letters {ratio:.2f} times as much; {size:,} bytes together")
    if size > MAX_BYTES or min(known.values()) < MIN_ACCURACY or ratio < MIN_RATIO:
        sys.exit(1)


if __name__ == "__main__":
    main()
