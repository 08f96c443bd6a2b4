"""The default loss against cross-entropy in the same loop, and the losses it was chosen from.

python -m benchmarks.default_loss SET... [--losses softmax edl ...] [--seeds 3]

Prints a line for each training and adds it to benchmarks/results/default_loss.json; what is there is not
trained again. The sets under CHOSEN_ON are parts of training data, with OOD data that no report judges by;
those under JUDGED_ON are test data with their OOD sets. A loss is written risk:weight, such as
cross_entropy:0.1; "edl" is the default, "softmax" the cross-entropy of softmax.
"""

import argparse
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from nescio.data import Dataset, StoredArray, Table, _rendered, load, split
from nescio.encoders import EncoderSpec, MLPSpec
from nescio.inference._choice import choose_network
from nescio.inference._frozen import encoded_data, pretrained_encoder
from nescio.inference.model import TrainedModel
from nescio.methods import EDL, Method, Softmax
from nescio.metrics import summary
from nescio.opinions.opinion import Opinion
from nescio.training import TrainingSettings

RESULTS = Path(__file__).parent / "results" / "default_loss.json"
LOSSES = ("softmax", "edl")
NUM_OOD_GLYPHS = 50  # classes
USUAL = TrainingSettings(precision="float32")
OF_HEADS = replace(USUAL, learning_rate=1e-3)  # as `nescio train` trains them


@dataclass(frozen=True)
class Comparison:
    """What is trained on, and what is measured.

    Args:
        train: Labelled data to train on.
        test: Labelled data to measure the accuracy on.
        ood: Inputs of other classes, or None where there are none.
        network: What is trained; made anew for every training.
        settings: How.
    """

    train: Dataset | Table
    test: Dataset | Table
    ood: Tensor | StoredArray | None
    network: Callable[[], EncoderSpec | nn.Module | str | None]
    settings: TrainingSettings = USUAL


def table_with_ood(name: str, num_held_out: int) -> Comparison:
    """A table of the catalog whose last classes are held out as OOD data."""
    data = load(name)
    known = data.classes[: len(data.classes) - num_held_out]
    train, test = split(data.only(known), 0.25, 0)
    ood = None
    if num_held_out:
        ood = data.only(data.classes[len(known) :]).inputs
    return Comparison(train, test, ood, lambda: None)


def features_of(name: str, part: str) -> Table:
    """The features that a frozen encoder gives of texts or photos."""
    data = load(name, part)
    choice = choose_network(data)
    assert choice.spec is not None
    assert choice.preprocess is not None
    return encoded_data(choice.spec, pretrained_encoder(choice.spec), choice.preprocess, data)


def head_for(features: Table) -> EncoderSpec:
    """The head that `nescio train` puts on such features."""
    return MLPSpec(features.inputs.shape[1], len(features.classes), (512,), 0.3)


def clinc_held_out_intents() -> Comparison:
    """CLINC150 without its last fifteen intents, which are the OOD data."""
    features = features_of("clinc150", "train")
    known = features.only(features.classes[:135])
    train, test = split(known, 0.2, 0)
    ood = features.only(features.classes[135:]).inputs
    return Comparison(train, test, ood, lambda: head_for(known), OF_HEADS)


def clinc() -> Comparison:
    """All of CLINC150, and its questions out of scope."""
    train = features_of("clinc150", "train")
    ood = features_of("clinc150-oos", "test").inputs
    return Comparison(train, features_of("clinc150", "test"), ood, lambda: head_for(train), OF_HEADS)


def digits() -> Comparison:
    """The 5,000 digits that come with the install; rendered characters are the OOD data."""
    train, test = split(load("digits"), 0.3, 0)
    images, _, _ = _rendered.glyphs(100, 10, 1)
    return Comparison(train, test, images, lambda: "lenet")


def mnist() -> Comparison:
    """MNIST, and Fashion-MNIST as OOD data."""
    return Comparison(
        load("mnist"), load("mnist", "test"), load("fashion-mnist", "test").images, lambda: "lenet"
    )


def small_network() -> nn.Module:
    """Three convolutions with batch normalisation, for images of 32 x 32 in colour and ten classes."""
    layers: list[nn.Module] = []
    for before, after in ((3, 32), (32, 64), (64, 128)):
        layers.append(nn.Conv2d(before, after, 3, padding=1, bias=False))
        layers.append(nn.BatchNorm2d(after))
        layers.append(nn.ReLU())
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 16, 10))


def cifar10_part() -> Comparison:
    """8,000 training images of CIFAR-10, measured on 3,000 others of them."""
    data = load("cifar10")
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    settings = replace(USUAL, epochs=8, batch_size=128)
    return Comparison(data.take(order[:8_000]), data.take(order[8_000:11_000]), None, small_network, settings)


def glyphs(num_classes: int, seed: int) -> Comparison:
    """Rendered characters, 40 of each class; further characters are the OOD data."""
    parts = []
    for per_class, part_seed in ((40, seed), (10, seed + 1)):
        images, labels, characters = _rendered.glyphs(num_classes + NUM_OOD_GLYPHS, per_class, part_seed)
        known = labels < num_classes
        name = f"glyphs-{num_classes}"
        parts.append(Dataset(images[known], labels[known], characters[:num_classes], name))
        ood = images[~known]
    return Comparison(parts[0], parts[1], ood, lambda: "lenet", replace(USUAL, epochs=20, batch_size=128))


CHOSEN_ON: dict[str, Callable[[], Comparison]] = {
    "penbased": lambda: table_with_ood("penbased", 2),
    "satimage": lambda: table_with_ood("satimage", 1),
    "digits": digits,
    "cifar10-part": cifar10_part,
    "clinc150-intents": clinc_held_out_intents,
    "glyphs-200": lambda: glyphs(200, 0),
}
JUDGED_ON: dict[str, Callable[[], Comparison]] = {
    "letter": lambda: table_with_ood("letter", 0),
    "letter-unseen": lambda: table_with_ood("letter", 6),
    "clinc150": clinc,
    "mnist": mnist,
    "glyphs-500": lambda: glyphs(500, 2),
}


def method_of(loss: str) -> Method:
    """The method that minimises a loss."""
    if loss == "softmax":
        return Softmax()
    if loss == "edl":
        return EDL()
    risk, weight = loss.split(":")
    return EDL(risk=risk, divergence_weight=weight if weight == "auto" else float(weight))


def measure(comparison: Comparison, loss: str, seed: int) -> dict[str, Any]:
    """Train once, and measure."""
    torch.manual_seed(seed)
    settings = replace(comparison.settings, seed=seed)
    model = TrainedModel.train(comparison.train, method_of(loss), comparison.network(), settings)
    known = model.predict(comparison.test.inputs)
    labels = model.labels_of(comparison.test)
    figures = summary(known, labels)
    doubt = _doubt(known)
    found = {name: round(figures[name], 4) for name in ("accuracy", "ece", "nll")}
    found["mean_doubt"] = round(float(doubt.mean()), 4)
    if comparison.ood is not None:
        ood = _doubt(model.predict(comparison.ood))
        is_ood = torch.cat((torch.zeros(len(doubt)), torch.ones(len(ood))))
        found["ood_auroc"] = round(float(roc_auc_score(is_ood, torch.cat((doubt, ood)))), 4)
        found["ood_mean_doubt"] = round(float(ood.mean()), 4)
    return found


def _doubt(prediction: Any) -> Tensor:
    """The uncertainty of opinions; one less the greatest probability of softmax."""
    if isinstance(prediction, Opinion):
        return prediction.uncertainty
    probabilities: Tensor = prediction.probabilities
    return 1 - probabilities.amax(1)


def main() -> None:
    """Train what is not there yet, and print a line for each training."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sets", nargs="+", metavar="SET", help=", ".join((*CHOSEN_ON, *JUDGED_ON)))
    parser.add_argument("--losses", nargs="+", default=LOSSES)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # losses that do not learn are among those that are compared
    torch.set_num_threads(1)
    known = CHOSEN_ON | JUDGED_ON
    for name in given.sets:
        comparison = known[name]()
        for loss in given.losses:
            for seed in range(given.seeds):
                rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
                key = f"{name} {loss} {seed}"
                if key not in rows:
                    found = measure(comparison, loss, seed)
                    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
                    rows[key] = found
                    RESULTS.write_text(json.dumps(dict(sorted(rows.items())), indent=1) + "\n")
                print(key, rows[key], flush=True)


if __name__ == "__main__":
    main()
