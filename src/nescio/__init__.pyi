from . import data, functional, metrics
from .encoders import LeNetSpec, MLPSpec, register_encoder
from .errors import (
    DataError,
    FetchError,
    InputError,
    MissingExtraError,
    ModelFileError,
    NescioError,
    NescioWarning,
    TrainingError,
)
from .inference import TrainedModel
from .integrations.sklearn import EvidentialClassifier
from .losses import EvidentialLoss, IEDLLoss, REDLoss
from .methods import (
    DAEDL,
    EDL,
    FEDL,
    FFGU,
    FFLU,
    IEDL,
    MNFG,
    RED,
    REDL,
    Dropout,
    EDLDistilled,
    EDLEnsemble,
    Ensemble,
    NatPN,
    ReEDL,
    Softmax,
    make_method,
    register_method,
)
from .methods.conversion import from_softmax
from .opinions import Categorical, Opinion, fuse
from .posthoc import AbstentionRule, ConformalSets, Temperature
from .training import TrainingSettings

__version__: str
__all__ = [
    "DAEDL",
    "EDL",
    "FEDL",
    "FFGU",
    "FFLU",
    "IEDL",
    "MNFG",
    "RED",
    "REDL",
    "AbstentionRule",
    "Categorical",
    "ConformalSets",
    "DataError",
    "Dropout",
    "EDLDistilled",
    "EDLEnsemble",
    "Ensemble",
    "EvidentialClassifier",
    "EvidentialLoss",
    "FetchError",
    "IEDLLoss",
    "InputError",
    "LeNetSpec",
    "MLPSpec",
    "MissingExtraError",
    "ModelFileError",
    "NatPN",
    "NescioError",
    "NescioWarning",
    "Opinion",
    "REDLoss",
    "ReEDL",
    "Softmax",
    "Temperature",
    "TrainedModel",
    "TrainingError",
    "TrainingSettings",
    "data",
    "from_softmax",
    "functional",
    "fuse",
    "make_method",
    "metrics",
    "register_encoder",
    "register_method",
]
