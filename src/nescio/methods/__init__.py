"""The methods, by the names that users give them. A new one is a file and a line in OURS."""

from __future__ import annotations

from nescio.methods.base import Batch, FeatureBatch, Method, mean_loss
from nescio.methods.baselines.dropout import Dropout
from nescio.methods.baselines.ensemble import Ensemble
from nescio.methods.baselines.ffgu import FFGU
from nescio.methods.baselines.fflu import FFLU
from nescio.methods.baselines.mnfg import MNFG
from nescio.methods.baselines.softmax import Softmax
from nescio.methods.evidential.daedl import DAEDL
from nescio.methods.evidential.edl import EDL
from nescio.methods.evidential.edl_distilled import EDLDistilled
from nescio.methods.evidential.edl_ensemble import EDLEnsemble
from nescio.methods.evidential.fedl import FEDL
from nescio.methods.evidential.iedl import IEDL
from nescio.methods.evidential.natpn import NatPN
from nescio.methods.evidential.re_edl import ReEDL
from nescio.methods.evidential.red import RED
from nescio.methods.evidential.redl import REDL
from nescio.methods.registry import (
    METHODS,
    make_method,
    method_from_dict,
    method_to_dict,
    register_method,
)
from nescio.methods.second_stage import TwoStage

OURS: tuple[type[Method], ...] = (
    Softmax,
    Dropout,
    Ensemble,
    FFGU,
    FFLU,
    MNFG,
    EDL,
    RED,
    IEDL,
    REDL,
    ReEDL,
    DAEDL,
    FEDL,
    NatPN,
    EDLEnsemble,
    EDLDistilled,
)

for _method in OURS:
    register_method(_method)

__all__ = [
    "DAEDL",
    "EDL",
    "FEDL",
    "FFGU",
    "FFLU",
    "IEDL",
    "METHODS",
    "MNFG",
    "RED",
    "REDL",
    "Batch",
    "Dropout",
    "EDLDistilled",
    "EDLEnsemble",
    "Ensemble",
    "FeatureBatch",
    "Method",
    "NatPN",
    "ReEDL",
    "Softmax",
    "TwoStage",
    "make_method",
    "mean_loss",
    "method_from_dict",
    "method_to_dict",
    "register_method",
]
