"""The arms: what is compared. Every setting is written out, so that nothing moves when defaults do.

Methods have the settings of their authors; where these differ between data sets, those of the nearest one
(`_sets.py`). They are not tuned on what the study reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nescio.studies.plan import Settings

UNCERTAINTY = "uncertainty"
ENTROPY = "entropy"
MAX_PROBABILITY = "max_probability"


@dataclass(frozen=True)
class Arm:
    """A method that is compared.

    Args:
        name: What it is called by programs.
        label: What it is called by people.
        method: Its name in the library, and all of its settings.
        score: The measure of doubt by which its authors tell OOD inputs.
        source: Where it comes from.
        has_dropout: Whether its network has the dropout of the data set's network.
        is_evidential: Whether it is one of the evidential methods, else a baseline.
        gives_opinions: Whether it says evidence, and not probabilities alone.
    """

    name: str
    label: str
    method: Settings
    score: str
    source: str
    has_dropout: bool = True
    is_evidential: bool = True
    gives_opinions: bool = True


# The divergence weight of the library's default follows from the number of classes: `_sets.py` sets it.
EDL: Settings = {
    "name": "edl",
    "risk": "cross_entropy",
    "evidence": "exp",
    "divergence_weight": 0.1,
    "annealing_epochs": 10,
    "weight_decay": 0.0,
    "output_bias": 0.0,
}
FUSED: Settings = {"num_members": 5, "fusion": "averaging"}
GAUSSIAN: Settings = {"samples": 20, "warm_up_epochs": 0, "initial_sigma": 0.01}
FLOWS: Settings = {**GAUSSIAN, "flow_length": 2, "flow_hidden": 50, "auxiliary_hidden": 100}

_ALL = (
    Arm(
        "softmax",
        "Softmax",
        {"name": "softmax", "weight_decay": 0.0},
        MAX_PROBABILITY,
        "cross-entropy; its score: Hendrycks and Gimpel 2017",
        is_evidential=False,
        gives_opinions=False,
    ),
    Arm("edl", "EDL (library's default)", EDL, UNCERTAINTY, "Sensoy et al. 2018, equation 4"),
    Arm(
        "edl-paper",
        "EDL (equation 5, weight 1)",
        {**EDL, "risk": "squared_error", "divergence_weight": 1.0},
        UNCERTAINTY,
        "Sensoy et al. 2018, equation 5, weight 1",
    ),
    Arm(
        "red",
        "RED",
        {
            "name": "red",
            "risk": "type2",
            "evidence": "exp",
            "divergence_weight": 1.0,
            "annealing_epochs": 10,
            "weight_decay": 0.0,
        },
        UNCERTAINTY,
        "Pandey and Yu 2023",
    ),
    Arm(
        "i-edl",
        "I-EDL",
        {
            "name": "i-edl",
            "fisher_weight": 0.005,
            "evidence": "softplus",
            "divergence_weight": 1.0,
            "annealing_epochs": 10,
            "weight_decay": 0.0,
        },
        UNCERTAINTY,
        "Deng et al. 2023",
    ),
    Arm(
        "r-edl",
        "R-EDL",
        {
            "name": "r-edl",
            "prior": 0.1,
            "evidence": "softplus",
            "divergence_weight": 1.0,
            "annealing_epochs": 10,
            "weight_decay": 0.0,
        },
        UNCERTAINTY,
        "Chen et al. 2024",
    ),
    Arm(
        "re-edl",
        "Re-EDL",
        {"name": "re-edl", "prior": 0.1, "evidence": "softplus", "weight_decay": 0.0},
        UNCERTAINTY,
        "Chen et al. 2025",
    ),
    Arm(
        "daedl",
        "DAEDL",
        {
            "name": "daedl",
            "divergence_weight": 0.05,
            "spectral_norm": True,
            "covariance": "class",
            "ridge": 0.001,
        },
        UNCERTAINTY,
        "Yoon and Kim 2024",
        has_dropout=False,
        gives_opinions=False,
    ),
    Arm(
        "f-edl",
        "F-EDL",
        {"name": "f-edl", "spectral_norm": True, "head_hidden": 256},
        UNCERTAINTY,
        "Yoon and Kim 2025",
        has_dropout=False,
        gives_opinions=False,
    ),
    Arm(
        "natpn",
        "NatPN",
        {
            "name": "natpn",
            "latent_size": 16,
            "flow_length": 8,
            "budget": "normal",
            "entropy_weight": 1e-5,
            "tuning_epochs": 100,
        },
        UNCERTAINTY,
        "Charpentier et al. 2022",
    ),
    Arm(
        "dropout",
        "MC dropout",
        {"name": "dropout", "samples": 50, "weight_decay": 0.0},
        ENTROPY,
        "Gal and Ghahramani 2016",
        is_evidential=False,
        gives_opinions=False,
    ),
    Arm(
        "ffgu",
        "FFGU",
        {"name": "ffgu", **GAUSSIAN},
        ENTROPY,
        "Blundell et al. 2015",
        has_dropout=False,
        is_evidential=False,
        gives_opinions=False,
    ),
    Arm(
        "fflu",
        "FFLU",
        {"name": "fflu", **GAUSSIAN},
        ENTROPY,
        "Kingma et al. 2015",
        has_dropout=False,
        is_evidential=False,
        gives_opinions=False,
    ),
    Arm(
        "mnfg",
        "MNFG",
        {"name": "mnfg", **FLOWS},
        ENTROPY,
        "Louizos and Welling 2017",
        has_dropout=False,
        is_evidential=False,
        gives_opinions=False,
    ),
    Arm(
        "ensemble",
        "Deep Ensemble",
        {"name": "ensemble", "num_members": 5, "epsilon": 0.01, "weight_decay": 0.0},
        ENTROPY,
        "Lakshminarayanan et al. 2017",
        has_dropout=False,
        is_evidential=False,
        gives_opinions=False,
    ),
    Arm(
        "edl-ensemble",
        "EDL ensemble, fused",
        {**EDL, "name": "edl-ensemble", **FUSED},
        UNCERTAINTY,
        "five of the library's EDL, averaged",
    ),
    Arm(
        "edl-distilled",
        "EDL ensemble, distilled",
        {**EDL, "name": "edl-distilled", **FUSED},
        UNCERTAINTY,
        "one network from five",
    ),
)
ARMS: Mapping[str, Arm] = {arm.name: arm for arm in _ALL}
DEFAULT_EDL = ("edl", "edl-ensemble", "edl-distilled")  # whose divergence weight follows the classes

# Settings that the library got after results of this study were made, with the values that stand for what
# was done then, as in the study of the paper: they are no part of what results are filed under.
LATER_METHOD: Mapping[str, Settings] = {}
LATER_ENCODER: Settings = {}
LATER_TRAINING: Settings = {}


def label(arm: str) -> str:
    """An arm's name for people."""
    return ARMS[arm].label


def labels(arms: Iterable[str]) -> str:
    """The names of arms for people, in a row."""
    return ", ".join(map(label, arms))
