"""At which layer, and how, distances to the training data tell OOD inputs best: AUROC of the distance alone.

python tools/trust_choices.py images            a LeNet on MNIST; the OOD sets are changed digits, glyphs,
                                                grey crops of CIFAR-10 and noise
python tools/trust_choices.py rows DATA A,B     a perceptron, trained without the classes A and B of a table
python tools/trust_choices.py texts             frozen MiniLM on CLINC150, without every tenth intent
python tools/trust_choices.py heads SET A,N     a head on the frozen encoder of a set of the study,
                                                trained without every N-th class, from the A-th on.
                                                --weight W: the divergence weight
python tools/trust_choices.py shapes SET A,N    the same, or a table in place of a set: what is finally said,
                                                for several shapes from distance to trust
python tools/trust_choices.py few SET A,N       the same with so few samples that none are held out: trust
                                                is measured on the training inputs themselves.
                                                --count N: samples; --classes K: of the first K classes.
                                                SET may also be wine or iris, of scikit-learn
python tools/trust_choices.py temperatures SET A,N  the same with a temperature of few held-out samples, for
                                                several priors: the largest scale of eight draws, and what it
                                                does
python tools/trust_choices.py shifts SET A,N    the same for several priors of the shift of the probabilities:
                                                the means of eight draws of few held-out samples, and all

Of the data that are trained on, only the training part is used: a fifth of it is held out as known inputs,
and classes are left out of it. What is judged by notMNIST, Fashion-MNIST, letters and CLINC150's out-of-scope
questions is not chosen by them: none of them is used here. docs/decisions/0021 has the numbers.
"""

import argparse
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import torch
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate

from nescio import TrainedModel, TrainingSettings
from nescio.data import Table, load, split
from nescio.encoders import spec_from_dict
from nescio.encoders.base import INPUTS
from nescio.inference._calibration import calibrate
from nescio.inference._choice import choose_network
from nescio.inference._frozen import encoded_data, pretrained_encoder
from nescio.inference._layers import features_at
from nescio.methods import EDL
from nescio.metrics import detection_by_measure, summary
from nescio.posthoc import Temperature, Trust, _distances, temperature
from nescio.posthoc._distances import MOST_PROTOTYPES, Distance, Gaussians, Neighbours
from nescio.posthoc.state import Posthoc
from nescio.studies.successors._sets import SETS
from nescio.training import Samples

COUNT = 2_000  # inputs of each OOD set
HELD_OUT = 0.2  # of the known classes' training part, to measure on
CALIBRATION = 0.1  # of the rest, as `nescio train` sets aside
DIRECTIONS_OF_HEADS = (16, 32, 64)
ALL_DIRECTIONS = 10_000
# As heads are trained, and rows were when the choices were made (decision 35).
WITHOUT_WEIGHT_DECAY: dict[str, Any] = {"optimizer": "adam"}
OF_SCIKIT_LEARN: dict[str, Callable[[], Any]] = {"wine": load_wine, "iris": load_iris}


def changed_digits(digits: Tensor) -> dict[str, Tensor]:
    """OOD sets made of digits (N, 1, 28, 28), and some that are nothing at all."""
    generator = torch.Generator().manual_seed(0)
    photos = load("cifar10", "test").images[:COUNT].float().mean(1, keepdim=True)
    glyphs = load("glyphs-60", "test")
    no_digits = torch.tensor([not glyphs.classes[label].isdigit() for label in glyphs.labels.tolist()])
    patches = torch.rand(COUNT, 1, 7, 7, generator=generator)
    return {
        "noise": torch.randint(0, 256, (COUNT, 1, 28, 28), generator=generator, dtype=torch.uint8),
        "smooth noise": (255 * interpolate(patches, 28, mode="bilinear")).byte(),
        "inverted": 255 - digits,
        "blurred": avg_pool2d(digits.float(), 7, 1, 3).byte(),
        "turned": digits.rot90(1, (2, 3)),
        "mirrored": digits.flip(3),
        "CIFAR-10": photos[:, :, 2:30, 2:30].byte(),
        "glyphs": glyphs.images[no_digits],
    }


def changed_rows(train: Tensor, rows: Tensor) -> dict[str, Tensor]:
    """OOD sets made of rows (N, F): too long, with one column far out, and columns of different rows."""
    generator = torch.Generator().manual_seed(0)
    count, width = rows.shape
    places = torch.arange(count)
    columns = torch.randint(0, width, (count,), generator=generator)
    mean = train.mean(0)
    far = 6 * train.std(0)
    high = rows.clone()
    high[places, columns] = (mean + far)[columns]
    low = rows.clone()
    low[places, columns] = (mean - far)[columns]
    mixed = rows.clone()
    for column in range(width):
        mixed[:, column] = rows[torch.randperm(count, generator=generator), column]
    return {
        "three times": 3 * rows,
        "one column high": high,
        "one column low": low,
        "columns mixed": mixed,
    }


def settings_to_try(
    num_features: int, lengths: Sequence[bool]
) -> Iterator[tuple[str, Callable[[Tensor, Tensor], Distance]]]:
    """Ways to measure a distance, each with its name; lengths: whether features are brought to length one."""
    for is_unit in lengths:
        length = "unit length" if is_unit else "as it is"
        for directions in (32, 64, 128, ALL_DIRECTIONS):
            if directions >= num_features and directions != ALL_DIRECTIONS:
                continue
            for k in (1, 5):
                yield f"{length}, neighbour {k}", _neighbours(directions, k, is_unit)
            if directions != ALL_DIRECTIONS or num_features <= 64:
                yield f"{length}, Gaussians", _gaussians(directions, is_unit)


def _neighbours(directions: int, k: int, is_unit: bool) -> Callable[[Tensor, Tensor], Distance]:
    def fit(features: Tensor, labels: Tensor) -> Distance:
        _distances.DIRECTIONS = directions
        return Neighbours.fit(features, k, is_unit)

    return fit


def _gaussians(directions: int, is_unit: bool) -> Callable[[Tensor, Tensor], Distance]:
    def fit(features: Tensor, labels: Tensor) -> Distance:
        _distances.DIRECTIONS = directions
        return Gaussians.fit(features, labels, is_unit)

    return fit


def directions_of(distance: Distance) -> int:
    """How many directions a fitted distance has: with many classes fewer than were asked for."""
    return distance.tensors()["projection"].shape[1]


def print_rows(
    layer: str,
    train: Tensor,
    labels: Tensor,
    known: Tensor,
    ood: dict[str, Tensor],
    lengths: Sequence[bool] = (True, False),
) -> None:
    """A line for each way to measure at a layer: the mean AUROC, and that of each OOD set."""
    for name, fit in settings_to_try(train.shape[1], lengths):
        distance = fit(train, labels)
        of_known = distances_of(distance, known)
        found = {}
        for title, features in ood.items():
            found[title] = auroc(of_known, distances_of(distance, features))
        mean = sum(found.values()) / len(found)
        each = ", ".join(f"{title} {value:.4f}" for title, value in found.items())
        way = f"{directions_of(distance)} directions, {name}"
        print(f"{layer:10s} {way:45s} mean {mean:.4f}: {each}", flush=True)


def distances_of(distance: Distance, features: Tensor) -> Tensor:
    """Of many features, a part at a time."""
    return torch.cat([distance(part) for part in torch.split(features, 1_000)])


def auroc(known: Tensor, ood: Tensor) -> float:
    """How well the greater values tell OOD inputs."""
    truth = [0] * len(known) + [1] * len(ood)
    return float(roc_auc_score(truth, torch.cat([known, ood]).double().numpy()))


def without(data: Any, names: list[str]) -> tuple[Any, Any]:
    """The data without some classes, and what is left out."""
    return data.only([name for name in data.classes if name not in names]), data.only(names)


def images() -> None:
    """The layers of a LeNet."""
    train, held_out = split(load("mnist"), HELD_OUT, 0)
    model = TrainedModel.train(train, "edl", "lenet", TrainingSettings(device="cpu"))
    drawn = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))[:MOST_PROTOTYPES]
    digits = held_out.images[:]
    sets = changed_digits(digits[:COUNT])
    for layer in ("6", "8"):  # the second convolution, and the hidden layer
        ood = {name: features_at(model, values, layer) for name, values in sets.items()}
        known = features_at(model, digits[COUNT : 3 * COUNT], layer)
        print_rows(layer, features_at(model, train.images[drawn], layer), train.labels[drawn], known, ood)


def rows(name: str, left_out: list[str]) -> None:
    """The inputs and the hidden layers of a perceptron."""
    known_rows, ood = without(load(name), left_out)
    train, test = split(known_rows, HELD_OUT, 0)
    settings = TrainingSettings(epochs=40, batch_size=64, device="cpu", **WITHOUT_WEIGHT_DECAY)
    model = TrainedModel.train(train, "edl", "mlp", settings)
    sets = {"left out": ood.inputs, **changed_rows(train.inputs, test.inputs)}
    for layer in (INPUTS, "1", "4"):
        features = {title: features_at(model, values, layer) for title, values in sets.items()}
        known = features_at(model, test.inputs, layer)
        print_rows(layer, features_at(model, train.inputs, layer), train.labels, known, features)


def texts() -> None:
    """The features of a frozen encoder, scaled as its head takes them and as they are."""
    data = load("clinc150")
    known, ood = without(data, list(data.classes[::10]))
    train, test = split(known, HELD_OUT, 0)
    choice = choose_network(data)
    assert choice.spec is not None
    assert choice.preprocess is not None
    module = pretrained_encoder(choice.spec)
    parts = []
    for part in (train, test, ood):
        parts.append(encoded_data(choice.spec, module, choice.preprocess, part).features[:])
    mean = parts[0].mean(0)
    deviation = parts[0].std(0)
    print_rows("features", parts[0], train.labels, parts[1], {"left out": parts[2]})
    scaled = [(part - mean) / deviation for part in parts]
    print_rows("scaled", scaled[0], train.labels, scaled[1], {"left out": scaled[2]})


@dataclass(frozen=True)
class Trial:
    """A model that was trained without some classes, and the parts of the data."""

    model: TrainedModel
    train: Any
    calibration: Any
    test: Any
    ood: Any
    is_encoded: bool

    def calibrated(self) -> Posthoc:
        """Temperature and trust, as the library fits them."""
        found = calibrate(
            self.model,
            Samples(self.train.inputs, self.model.labels_of(self.train)),
            Samples(self.calibration.inputs, self.model.labels_of(self.calibration)),
            "all",
            is_encoded=self.is_encoded,
        )
        assert found.posthoc is not None
        return found.posthoc


def scikit_learn_table(name: str) -> Table:
    """A small table that comes with scikit-learn; nothing was chosen on it."""
    found = OF_SCIKIT_LEARN[name]()
    inputs = torch.from_numpy(found.data).float()
    return Table(inputs, torch.from_numpy(found.target), tuple(map(str, found.target_names)), name)


def trial_of(
    name: str,
    first: int,
    step: int,
    weight: float | None,
    count: int | None = None,
    num_classes: int | None = None,
) -> Trial:
    """A head on the frozen encoder of a set of the study, or a perceptron on a table, without some classes.

    Every step-th class is left out, from the first on. weight: of the divergence; None for the library's.
    count: of the samples to train on, drawn; None for all. num_classes: only the first so many known classes.
    """
    study_set = SETS.get(name)
    if study_set is not None:
        data = study_set.known.load("train")
    elif name in OF_SCIKIT_LEARN:
        data = scikit_learn_table(name)
    else:
        data = load(name)
    known, ood = without(data, list(data.classes[first::step]))
    if num_classes is not None:
        known = known.only(known.classes[:num_classes])
    rest, test = split(known, HELD_OUT, 0)
    train, calibration = split(rest, CALIBRATION, 0)
    if count is not None:
        drawn = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))[:count]
        train = train.take(drawn.sort().values)
    method = EDL() if weight is None else EDL(divergence_weight=weight)
    if study_set is None:
        settings = TrainingSettings(seed=0, **WITHOUT_WEIGHT_DECAY)
        model = TrainedModel.train(train, method, settings=settings)
    else:
        spec = spec_from_dict(
            {**study_set.encoder, "num_classes": len(known.classes), "dropout": study_set.dropout}
        )
        settings = TrainingSettings(**{**study_set.training, "seed": 0})
        if count is not None:
            settings = TrainingSettings(seed=0, **WITHOUT_WEIGHT_DECAY)  # epochs by the number of samples
        model = TrainedModel.train(train, method, spec, settings)
    return Trial(model, train, calibration, test, ood, is_encoded=study_set is not None)


def heads(trial: Trial) -> None:
    """Distances at two layers, and what is finally said."""
    model = trial.model
    assert model.network is not None
    for layer in (INPUTS, model.network.distance_layer):
        features = {"left out": features_at(model, trial.ood.inputs, layer)}
        of_known = features_at(model, trial.test.inputs, layer)
        labels = model.labels_of(trial.train)
        of_train = features_at(model, trial.train.inputs, layer)
        print_rows(layer, of_train, labels, of_known, features, lengths=(True,))
    print_said("as trained", trial, None)
    for directions in DIRECTIONS_OF_HEADS:
        _distances.DIRECTIONS = directions
        posthoc = trial.calibrated()
        assert posthoc.trust is not None
        print_said(f"calibrated, {directions_of(posthoc.trust.distance)} directions", trial, posthoc)


def shapes(trial: Trial) -> None:
    """What is finally said, with trust at a half for several shares of known inputs, and as it was before."""
    posthoc = trial.calibrated()
    trust = posthoc.trust
    assert trust is not None
    assert trust.layer is not None
    features = features_at(trial.model, trial.calibration.inputs, trust.layer)
    prediction = trial.model.predict(trial.calibration.inputs)
    labels = trial.model.labels_of(trial.calibration)

    def print_with(name: str, other: Trust) -> None:
        temperature = Temperature.fit(prediction, labels, other(features))
        print_said(name, trial, Posthoc(temperature, other))

    print_said("as trained", trial, None)
    print_with("the tail alone, half at 0.001", replace(trust, bulk=None, half_at=0.001))
    for half_at in (0.001, 0.003, 0.01):
        print_with(f"half at {half_at}", replace(trust, half_at=half_at))
    print_with(f"by the errors: {trust.half_at:.5f}", trust)


def few(trial: Trial) -> None:
    """What is finally said, with trust that is measured on the training inputs, for several strengths."""
    inputs = features_at(trial.model, trial.train.inputs, INPUTS)
    print_said("as trained", trial, None)
    for half_at in (0.001, 0.003, 0.01, 0.03):
        trust = Trust.cross_fit(inputs, is_unit=trial.is_encoded, half_at=half_at)
        print_said(f"half at {half_at}", trial, Posthoc(None, replace(trust, layer=INPUTS)))


def print_said(name: str, trial: Trial, posthoc: Posthoc | None) -> None:
    """A line of what a model says of known inputs, and how well u tells those left out."""
    model = replace(trial.model, posthoc=posthoc)
    known = model.predict(trial.test.inputs)
    figures = summary(known, model.labels_of(trial.test))
    left_out = model.predict(trial.ood.inputs)
    found = auroc(known.uncertainty, left_out.uncertainty)
    answered = [100 * float(model.accepts(each).float().mean()) for each in (known, left_out)]
    print(
        f"{name:30s} accuracy {100 * figures['accuracy']:.2f} %, ECE {100 * figures['ece']:.2f} %, "
        f"NLL {figures['nll']:.3f}, AURC {1000 * figures['aurc']:.2f} e-3, AUROC by u {found:.4f}, "
        f"answered: {answered[0]:.0f} %, of those left out {answered[1]:.0f} %",
        flush=True,
    )


def temperatures(trial: Trial) -> None:
    """What is finally said, with a temperature of few held-out samples, for several priors of the scale."""
    trust = trial.calibrated().trust
    assert trust is not None
    assert trust.layer is not None
    factors = trust(features_at(trial.model, trial.calibration.inputs, trust.layer))
    prediction = trial.model.predict(trial.calibration.inputs)
    labels = trial.model.labels_of(trial.calibration)
    print_said("trust alone", trial, Posthoc(None, trust))
    for count in (25, 50, 100, len(labels)):
        for deviation in (0.2, 0.3, 0.5, math.inf):
            temperature.LOG_SCALE_DEVIATION = deviation
            fitted = []
            for seed in range(8 if count < len(labels) else 1):
                rows = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))[:count]
                fitted.append(Temperature.fit(prediction[rows], labels[rows], factors[rows]))
            largest = max(fitted, key=lambda each: each.scale)
            name = f"{count}, deviation {deviation:g}, largest {largest.scale:.2f}"
            print_said(name, trial, Posthoc(largest, trust))


def shifts(trial: Trial) -> None:
    """ECE and NLL of known inputs, without and with a scale and a shift of the probabilities of their own."""
    trust = trial.calibrated().trust
    assert trust is not None
    assert trust.layer is not None
    factors = trust(features_at(trial.model, trial.calibration.inputs, trust.layer))
    prediction = trial.model.predict(trial.calibration.inputs)
    labels = trial.model.labels_of(trial.calibration)
    print_said("as trained", trial, None)
    for count in (50, 100, len(labels)):
        drawn = []
        for seed in range(8 if count < len(labels) else 1):
            drawn.append(torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))[:count])
        for deviation in (None, 1.0, 2.0, 3.0, 5.0, 10.0):
            fitted = []
            for rows in drawn:
                if deviation is not None:
                    temperature.SHIFT_DEVIATION = deviation
                found = Temperature.fit(prediction[rows], labels[rows], factors[rows])
                fitted.append(Temperature(found.scale) if deviation is None else found)
            name = "none" if deviation is None else f"deviation {deviation:g}"
            print_means(f"{count} samples, {name}", trial, [Posthoc(each, trust) for each in fitted])


def print_means(name: str, trial: Trial, fitted: Sequence[Posthoc]) -> None:
    """A line of ECE and NLL of known inputs, the mean and the greatest, and how those left out are told."""
    eces = []
    nlls = []
    left_out = []
    found: dict[str, list[float]] = {}
    for posthoc in fitted:
        model = replace(trial.model, posthoc=posthoc)
        known = model.predict(trial.test.inputs)
        ood = model.predict(trial.ood.inputs)
        figures = summary(known, model.labels_of(trial.test))
        eces.append(100 * figures["ece"])
        nlls.append(figures["nll"])
        left_out.append(float(ood.max_probability().mean()))
        for measure, detection in detection_by_measure(known, ood).items():
            found.setdefault(measure, []).append(detection.auroc)
    aurocs = [f"{measure} {fmean(values):.3f}" for measure, values in found.items()]
    print(
        f"{name:30s} ECE {fmean(eces):.2f} % (at most {max(eces):.2f}), NLL {fmean(nlls):.4f} (at most "
        f"{max(nlls):.4f}), greatest probability of those left out {fmean(left_out):.3f}, their AUROC by "
        f"{', '.join(aurocs)}",
        flush=True,
    )


OF_TRIALS: dict[str, Callable[[Trial], None]] = {
    "heads": heads,
    "shapes": shapes,
    "few": few,
    "temperatures": temperatures,
    "shifts": shifts,
}


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("images", "rows", "texts", *OF_TRIALS))
    parser.add_argument("source", nargs="?", default="")
    parser.add_argument("left_out", nargs="?", default="")
    parser.add_argument("--weight", type=float, help="the divergence weight of heads; default: the library's")
    parser.add_argument("--count", type=int, help="train on so many samples; default: all")
    parser.add_argument("--classes", type=int, help="train on the first so many classes; default: all")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if given.what == "images":
        images()
    elif given.what == "rows":
        rows(given.source, given.left_out.split(","))
    elif given.what in OF_TRIALS:
        first, step = given.left_out.split(",")
        trial = trial_of(given.source, int(first), int(step), given.weight, given.count, given.classes)
        OF_TRIALS[given.what](trial)
    else:
        texts()


if __name__ == "__main__":
    main()
