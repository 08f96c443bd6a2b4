"""Encoders: what turns an input into features, with a head on top. A new one is a file and a line in OURS."""

from nescio._kinds import InputKind
from nescio.encoders.base import (
    Ability,
    EncoderSpec,
    Layers,
    Normalization,
    SequentialEncoder,
    features_of,
    input_kind,
    require_features,
)
from nescio.encoders.lenet import LeNetSpec
from nescio.encoders.mlp import MLPSpec
from nescio.encoders.registry import (
    ENCODERS,
    encoders_for,
    make_encoder,
    register_encoder,
    spec_from_dict,
    spec_to_dict,
)

OURS: tuple[type[EncoderSpec], ...] = (LeNetSpec, MLPSpec)

for _spec in OURS:
    register_encoder(_spec)

__all__ = [
    "ENCODERS",
    "Ability",
    "EncoderSpec",
    "InputKind",
    "Layers",
    "LeNetSpec",
    "MLPSpec",
    "Normalization",
    "SequentialEncoder",
    "encoders_for",
    "features_of",
    "input_kind",
    "make_encoder",
    "register_encoder",
    "require_features",
    "spec_from_dict",
    "spec_to_dict",
]
