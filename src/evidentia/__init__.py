"""Neural classifiers that know when they do not know.

The names below are the public ones. They are loaded when first used, so that the command line can
answer without waiting for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from evidentia import data, evaluation
    from evidentia.abstention import AbstentionRule
    from evidentia.core import Opinion, fuse
    from evidentia.errors import (
        DataError,
        EvidentiaError,
        EvidentiaWarning,
        FetchError,
        InputError,
        MissingExtraError,
        ModelFileError,
        TrainingError,
    )
    from evidentia.estimator import EvidentialClassifier
    from evidentia.losses import EvidentialLoss, functional
    from evidentia.methods import EDL, L2
    from evidentia.model import TrainedModel
    from evidentia.nets import LeNetSpec, MLPSpec
    from evidentia.training import TrainingSettings

# Public name -> the module that defines it; a module stands for itself.
_HOMES = {
    "AbstentionRule": "evidentia.abstention",
    "DataError": "evidentia.errors",
    "Dropout": "evidentia.methods",
    "EDL": "evidentia.methods",
    "Ensemble": "evidentia.methods",
    "EvidentiaError": "evidentia.errors",
    "EvidentiaWarning": "evidentia.errors",
    "EvidentialClassifier": "evidentia.estimator",
    "EvidentialLoss": "evidentia.losses",
    "FFGU": "evidentia.methods",
    "FFLU": "evidentia.methods",
    "FetchError": "evidentia.errors",
    "InputError": "evidentia.errors",
    "L2": "evidentia.methods",
    "LeNetSpec": "evidentia.nets",
    "MLPSpec": "evidentia.nets",
    "MNFG": "evidentia.methods",
    "MissingExtraError": "evidentia.errors",
    "ModelFileError": "evidentia.errors",
    "Opinion": "evidentia.core",
    "TrainedModel": "evidentia.model",
    "TrainingError": "evidentia.errors",
    "TrainingSettings": "evidentia.training",
    "data": "evidentia.data",
    "evaluation": "evidentia.evaluation",
    "from_softmax": "evidentia.nets",
    "functional": "evidentia.losses.functional",
    "fuse": "evidentia.core",
    "make_method": "evidentia.methods",
}

__all__ = [
    "EDL",
    "FFGU",
    "FFLU",
    "L2",
    "MNFG",
    "AbstentionRule",
    "DataError",
    "Dropout",
    "Ensemble",
    "EvidentiaError",
    "EvidentiaWarning",
    "EvidentialClassifier",
    "EvidentialLoss",
    "FetchError",
    "InputError",
    "LeNetSpec",
    "MLPSpec",
    "MissingExtraError",
    "ModelFileError",
    "Opinion",
    "TrainedModel",
    "TrainingError",
    "TrainingSettings",
    "__version__",
    "data",
    "evaluation",
    "from_softmax",
    "functional",
    "fuse",
    "make_method",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'evidentia' has no attribute {name!r}")
    home = import_module(_HOMES[name])
    value = home if home.__name__.endswith(f".{name}") else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
