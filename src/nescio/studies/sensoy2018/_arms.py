"""The arms: what is compared. Every setting is written out, so that nothing moves when defaults do.

What the study compares is a list of its own: a method that the library gets later is no arm of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nescio.studies.plan import Settings
from nescio.studies.sensoy2018._overrides import Overrides


@dataclass(frozen=True)
class Arm:
    """One line of the tables.

    Args:
        name: What it is called by programs.
        label: What it is called by people.
        overrides: Its method, network and training, wherever it is trained.
    """

    name: str
    label: str
    overrides: Overrides


LENET: Settings = {"dropout": 0.0, "padding": "valid", "initialisation": "torch"}
LENET_WITH_DROPOUT: Settings = {**LENET, "dropout": 0.5}
NOTEBOOK_LENET: Settings = {"dropout": 0.5, "padding": "same", "initialisation": "notebook"}
SOFTMAX: Settings = {"name": "softmax", "weight_decay": 0.005}
DROPOUT: Settings = {"name": "dropout", "samples": 50, "weight_decay": 0.0}
ENSEMBLE: Settings = {"name": "ensemble", "num_members": 5, "epsilon": 0.01, "weight_decay": 0.0}
GAUSSIAN: Settings = {"samples": 20, "warm_up_epochs": 0, "initial_sigma": 0.01}
FLOWS: Settings = {**GAUSSIAN, "flow_length": 2, "flow_hidden": 50, "auxiliary_hidden": 100}
EVIDENTIAL: Settings = {
    "name": "edl",
    "risk": "squared_error",
    "evidence": "exp",
    "divergence_weight": 1.0,
    "annealing_epochs": 10,
    "weight_decay": 0.0,
    "output_bias": 0.0,
}
EVIDENTIAL_RELU: Settings = {**EVIDENTIAL, "evidence": "relu"}
# The start that serves ReLU evidence best on held-out training images: docs/decisions/0014.
PRINTED: Settings = {**EVIDENTIAL_RELU, "output_bias": 1.0}
CONSTANT_RATE: Settings = {"schedule": "constant"}
NOTEBOOK_TRAINING: Settings = {"batch_size": 1000, "epochs": 50, "schedule": "constant"}

_ALL = (
    Arm("l2", "L2", Overrides(SOFTMAX, LENET)),
    Arm("dropout", "Dropout", Overrides(DROPOUT, LENET_WITH_DROPOUT)),
    Arm("ensemble", "Deep Ensemble", Overrides(ENSEMBLE, LENET)),
    Arm("ffgu", "FFGU", Overrides({"name": "ffgu", **GAUSSIAN}, LENET)),
    Arm("fflu", "FFLU", Overrides({"name": "fflu", **GAUSSIAN}, LENET)),
    Arm("mnfg", "MNFG", Overrides({"name": "mnfg", **FLOWS}, LENET)),
    Arm("edl", "EDL", Overrides(EVIDENTIAL, LENET_WITH_DROPOUT)),
    Arm("edl-printed", "EDL (as printed)", Overrides(PRINTED, LENET)),
    Arm(
        "edl-notebook",
        "EDL (author's notebook)",
        Overrides({**EVIDENTIAL_RELU, "weight_decay": 0.005}, NOTEBOOK_LENET, NOTEBOOK_TRAINING),
    ),
    Arm("edl-relu", "EDL (ReLU, usual start)", Overrides(EVIDENTIAL_RELU, LENET, CONSTANT_RATE)),
    Arm(
        "edl-cross-entropy",
        "EDL (equation 4)",
        Overrides({**EVIDENTIAL, "risk": "cross_entropy"}, LENET_WITH_DROPOUT),
    ),
    Arm("edl-type2", "EDL (equation 3)", Overrides({**EVIDENTIAL, "risk": "type2"}, LENET_WITH_DROPOUT)),
)
ARMS: Mapping[str, Arm] = {arm.name: arm for arm in _ALL}

SOURCE = "l2"  # the arm whose adversarial images are shown to all others
EVIDENTIAL_ARMS = ("edl", "edl-printed", "edl-notebook")
OTHERS = ("l2", "dropout", "ensemble", "ffgu", "fflu", "mnfg")
COMPARED = (*OTHERS, *EVIDENTIAL_ARMS)
# The paper leaves Deep Ensemble out of its figures of attacks.
OTHERS_ATTACKED = ("l2", "dropout", "ffgu", "fflu", "mnfg")
WITHOUT_ENSEMBLE = (*OTHERS_ATTACKED, *EVIDENTIAL_ARMS)
BAYESIAN = ("ffgu", "fflu", "mnfg")
LOSSES = {"edl": "squared error (5)", "edl-cross-entropy": "cross-entropy (4)", "edl-type2": "type II (3)"}
DEAD_CLASSES = ("edl-printed", "edl-relu")

# Settings that the library got after results of this study were made, with the values that stand for what
# was done then: {"method": {"edl": {...}}, "encoder": {...}, "training": {...}}. They are used in every
# training of the study and are no part of what its results are filed under.
LATER_METHOD: Mapping[str, Settings] = {}
LATER_ENCODER: Settings = {}
LATER_TRAINING: Settings = {
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


def label(arm: str) -> str:
    """An arm's name for people."""
    return ARMS[arm].label


def labels(arms: Iterable[str]) -> str:
    """The names of arms for people, in a row."""
    return ", ".join(map(label, arms))
