"""Neural classifiers that know when they do not know.

The names below are the public ones. They are loaded when first used, so that the command line can
answer without waiting for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from nescio import data, evaluation
    from nescio.abstention import AbstentionRule
    from nescio.core import Opinion, fuse
    from nescio.errors import (
        DataError,
        NescioError,
        NescioWarning,
        FetchError,
        InputError,
        MissingExtraError,
        ModelFileError,
        TrainingError,
    )
    from nescio.estimator import EvidentialClassifier
    from nescio.losses import EvidentialLoss, functional
    from nescio.methods import EDL, L2
    from nescio.model import TrainedModel
    from nescio.nets import LeNetSpec, MLPSpec
    from nescio.training import TrainingSettings

# Public name -> the module that defines it; a module stands for itself.
_HOMES = {
    "AbstentionRule": "nescio.abstention",
    "DataError": "nescio.errors",
    "Dropout": "nescio.methods",
    "EDL": "nescio.methods",
    "Ensemble": "nescio.methods",
    "NescioError": "nescio.errors",
    "NescioWarning": "nescio.errors",
    "EvidentialClassifier": "nescio.estimator",
    "EvidentialLoss": "nescio.losses",
    "FFGU": "nescio.methods",
    "FFLU": "nescio.methods",
    "FetchError": "nescio.errors",
    "InputError": "nescio.errors",
    "L2": "nescio.methods",
    "LeNetSpec": "nescio.nets",
    "MLPSpec": "nescio.nets",
    "MNFG": "nescio.methods",
    "MissingExtraError": "nescio.errors",
    "ModelFileError": "nescio.errors",
    "Opinion": "nescio.core",
    "TrainedModel": "nescio.model",
    "TrainingError": "nescio.errors",
    "TrainingSettings": "nescio.training",
    "data": "nescio.data",
    "evaluation": "nescio.evaluation",
    "from_softmax": "nescio.nets",
    "functional": "nescio.losses.functional",
    "fuse": "nescio.core",
    "make_method": "nescio.methods",
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
    "NescioError",
    "NescioWarning",
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
        raise AttributeError(f"module 'nescio' has no attribute {name!r}")
    home = import_module(_HOMES[name])
    value = home if home.__name__.endswith(f".{name}") else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
