"""The data sets: what is trained on, which network, how long, and which inputs are out of distribution.

Batch size, epochs and learning rate are those of `nescio train` for so many samples; CIFAR5 with a LeNet has
half of the epochs, and batches of half the size. A tenth of the training data, at most 5,000 samples, is set
aside for temperature and trust: the networks of all arms, with and without them, are trained on the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nescio.studies.measurement import Measurement
from nescio.studies.plan import DataPart, Settings, TrainingPlan
from nescio.studies.study import Experiment
from nescio.studies.successors._arms import (
    ARMS,
    DEFAULT_EDL,
    LATER_ENCODER,
    LATER_METHOD,
    LATER_TRAINING,
)
from nescio.studies.successors._measurements import (
    AsTrained,
    ComparisonScores,
    WithPosthoc,
    WithPosthocOfOpinions,
)

ALL_ARMS = tuple(ARMS)
SCORED = "softmax"  # the arm that the OOD scores of the literature are computed of
DROPOUT = 0.5  # of the arm `dropout`, where the network has none of its own


@dataclass(frozen=True)
class StudySet:
    """Arms that are trained on one data set and measured alike.

    Args:
        name: What it is called, as by --only.
        title: What it is called by people.
        network: The network in words.
        known: The data that are trained on, and whose test part is asked about.
        ood: Data of other classes, by name; their test parts are asked about.
        encoder: `kind` and settings of the network that is trained.
        dropout: The dropout of that network, for arms that have it.
        training: Settings of all its trainings.
        calibration: So many training samples are set aside.
        arms: What is compared here.
        methods: Settings of methods that differ here, by arm.
        seeds: Number of trainings of each arm.
    """

    name: str
    title: str
    network: str
    known: DataPart
    ood: Mapping[str, DataPart]
    encoder: Settings
    dropout: float
    training: Settings
    calibration: int
    arms: tuple[str, ...] = ALL_ARMS
    methods: Mapping[str, Settings] = field(default_factory=dict)
    seeds: int = 3

    def experiments(self, seeds: int | None = None) -> list[Experiment]:
        """Every arm with every seed, one seed after the other; seeds: so many instead of the set's own."""
        experiments = []
        for seed in range(seeds or self.seeds):
            for arm in self.arms:
                experiments.append(self._experiment(arm, seed))
        return experiments

    def _experiment(self, arm: str, seed: int) -> Experiment:
        plan = self._plan(arm, seed)
        with_posthoc = WithPosthoc
        if ARMS[arm].gives_opinions:
            with_posthoc = WithPosthocOfOpinions
        measurements: list[Measurement] = [
            AsTrained(self.known, self.ood, seed),
            with_posthoc(self.known, self.ood, seed, plan),
        ]
        if arm == SCORED:
            measurements.append(ComparisonScores(self.known, self.ood, seed, plan))
        return Experiment(self.name, arm, plan, tuple(measurements))

    def _plan(self, arm: str, seed: int) -> TrainingPlan:
        method = self.method(arm)
        dropout = 0.0
        if ARMS[arm].has_dropout:
            dropout = self.dropout
        if arm == "dropout" and not dropout:
            dropout = DROPOUT
        return TrainingPlan(
            data=self.known.data,
            held_out=0,
            method=method,
            encoder={**self.encoder, "dropout": dropout},
            training={**self.training, "seed": seed},
            later={
                "method": LATER_METHOD.get(str(method["name"]), {}),
                "encoder": LATER_ENCODER,
                "training": LATER_TRAINING,
            },
            classes=self.known.classes,
            features=self.known.features,
            calibration=self.calibration,
        )

    def method(self, arm: str) -> dict[str, object]:
        """The settings of an arm's method here."""
        settings = dict(ARMS[arm].method)
        if arm in DEFAULT_EDL:
            settings["divergence_weight"] = _divergence_weight(int(self.encoder["num_classes"]))
        settings.update(self.methods.get(arm, {}))
        return settings


def _divergence_weight(num_classes: int) -> float:
    """The library's rule, docs/decisions/0022, as it was when the study was begun."""
    return float(round(0.1 * min(1.0, (10 / num_classes) ** 3), 8))


_TRAINING: Settings = {
    "schedule": "cosine",
    "shift": 0,
    "flip": False,
    "patience": None,
    "device": "cpu",
    "precision": "float32",
    "optimizer": "adam",
    "weight_decay": 0.0,
    "warmup": 0.0,
    "clip_norm": 0.0,
    "accumulate": 1,
    "ema": 0.0,
    "class_weight": None,
    "sampler": "shuffled",
    "encoder_rate": 1.0,
    "freeze_epochs": 0,
    "augment": "none",
    "mixup": 0.0,
}


def _training(epochs: int, batch_size: int, learning_rate: float) -> Settings:
    return {**_TRAINING, "epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate}


def _head(in_features: int, num_classes: int, units: int) -> Settings:
    """The perceptron that `nescio train` puts on a frozen encoder; here each feature has its own scale."""
    return {"kind": "mlp", "in_features": in_features, "num_classes": num_classes, "hidden": (units,)}


_MINILM: Settings = {"kind": "minilm", "max_length": 128, "num_classes": 2, "dropout": 0.1}
_EFFICIENTNET: Settings = {
    "kind": "efficientnet-lite0",
    "height": 160,
    "width": 160,
    "num_classes": 2,
    "dropout": 0.2,
}
_LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_NEWSGROUPS = (
    "alt.atheism",
    "comp.graphics",
    "comp.os.ms-windows.misc",
    "comp.sys.ibm.pc.hardware",
    "comp.sys.mac.hardware",
    "comp.windows.x",
    "misc.forsale",
    "rec.autos",
    "rec.motorcycles",
    "rec.sport.baseball",
    "rec.sport.hockey",
    "sci.crypt",
    "sci.electronics",
    "sci.med",
    "sci.space",
    "soc.religion.christian",
    "talk.politics.guns",
    "talk.politics.mideast",
    "talk.politics.misc",
    "talk.religion.misc",
)
# CLINC150 was measured after the rule had got its exponent of 2.5, and has the weight that this gives.
_WEIGHT_FOR_150_CLASSES: Settings = {"divergence_weight": 0.00011475}
# A Gaussian a class needs more samples in each class than there are features: else one covariance for all.
_SHARED_COVARIANCE: Mapping[str, Settings] = {"daedl": {"covariance": "shared"}}
# What the authors chose for CIFAR-10.
_PUBLISHED_FOR_CIFAR10: Mapping[str, Settings] = {
    "i-edl": {"fisher_weight": 0.05},
    "re-edl": {"prior": 0.8},
}

_ALL = (
    StudySet(
        name="letter",
        title="letter, A to T",
        network="perceptron, two layers of 256",
        known=DataPart("letter", _LETTERS[:20]),
        ood={"letter U to Z": DataPart("letter", _LETTERS[20:])},
        encoder={"kind": "mlp", "in_features": 16, "num_classes": 20, "hidden": (256, 256)},
        dropout=0.0,
        training=_training(37, 128, 3e-3),
        calibration=1229,
    ),
    StudySet(
        name="clinc150",
        title="CLINC150",
        network="frozen MiniLM and a head of 512",
        known=DataPart("clinc150", features=_MINILM),
        ood={"out of scope": DataPart("clinc150-oos", features=_MINILM)},
        encoder=_head(384, 150, 512),
        dropout=0.3,
        training=_training(64, 256, 1e-3),
        calibration=1500,
        methods={**_SHARED_COVARIANCE, **dict.fromkeys(DEFAULT_EDL, _WEIGHT_FOR_150_CLASSES)},
    ),
    StudySet(
        name="20newsgroups",
        title="20 Newsgroups, the first 15",
        network="frozen MiniLM and a head of 120",
        known=DataPart("20newsgroups", _NEWSGROUPS[:15], _MINILM),
        ood={"the other five groups": DataPart("20newsgroups", _NEWSGROUPS[15:], _MINILM)},
        encoder=_head(384, 15, 120),
        dropout=0.3,
        training=_training(11, 128, 1e-3),
        calibration=874,
        methods=_SHARED_COVARIANCE,
    ),
    StudySet(
        name="cifar5",
        title="CIFAR5",
        network="frozen EfficientNet-lite0 (ImageNet) and a head of 64",
        known=DataPart("cifar5", features=_EFFICIENTNET),
        ood={"unseen five": DataPart("cifar5-unseen", features=_EFFICIENTNET)},
        encoder=_head(1280, 5, 64),
        dropout=0.3,
        training=_training(5, 256, 1e-3),
        calibration=2500,
        methods=_PUBLISHED_FOR_CIFAR10,
    ),
    StudySet(
        name="mnist",
        title="MNIST",
        network="LeNet",
        known=DataPart("mnist"),
        ood={
            "notMNIST": DataPart("notmnist"),
            "Fashion-MNIST": DataPart("fashion-mnist"),
            "letters": DataPart("letters"),
        },
        encoder={
            "kind": "lenet",
            "in_channels": 1,
            "height": 28,
            "width": 28,
            "num_classes": 10,
            "filters": (20, 50),
            "hidden": 500,
            "padding": "valid",
            "initialisation": "torch",
        },
        dropout=0.5,
        training=_training(17, 256, 1e-3),
        calibration=5000,
    ),
    StudySet(
        name="cifar5-lenet",
        title="CIFAR5 (LeNet)",
        network="LeNet of 192 filters, from the start",
        known=DataPart("cifar5"),
        ood={"unseen five": DataPart("cifar5-unseen")},
        encoder={
            "kind": "lenet",
            "in_channels": 3,
            "height": 32,
            "width": 32,
            "num_classes": 5,
            "filters": (192, 192),
            "hidden": 1000,
            "padding": "valid",
            "initialisation": "torch",
        },
        dropout=0.5,
        training=_training(20, 128, 1e-3),  # as many steps as 40 epochs of 256, in half of the time
        calibration=2500,
        arms=("softmax", "edl"),
    ),
)
SETS: dict[str, StudySet] = {each.name: each for each in _ALL}
