"""Encoders: what turns an input into features, with a head on top. A new one is a file and a line in OURS."""

from nescio._kinds import InputKind
from nescio.encoders.base import (
    Ability,
    EncoderSpec,
    EncoderWithHead,
    Layers,
    Normalization,
    SequentialEncoder,
    features_of,
    input_kind,
    replace_head,
    require_features,
)
from nescio.encoders.efficientnet import EfficientNetLite0Spec
from nescio.encoders.hf import HFImageSpec, HFTextSpec
from nescio.encoders.lenet import LeNetSpec
from nescio.encoders.minilm import MiniLMSpec
from nescio.encoders.mlp import MLPSpec
from nescio.encoders.registry import (
    ENCODERS,
    encoders_for,
    make_encoder,
    register_encoder,
    spec_from_dict,
    spec_to_dict,
)
from nescio.encoders.resnet import ResNet18Spec, ResNet50Spec
from nescio.encoders.wrapped import with_features

OURS: tuple[type[EncoderSpec], ...] = (
    LeNetSpec,
    MLPSpec,
    ResNet18Spec,
    ResNet50Spec,
    EfficientNetLite0Spec,
    MiniLMSpec,
    HFImageSpec,
    HFTextSpec,
)

for _spec in OURS:
    register_encoder(_spec)

__all__ = [
    "ENCODERS",
    "Ability",
    "EfficientNetLite0Spec",
    "EncoderSpec",
    "EncoderWithHead",
    "HFImageSpec",
    "HFTextSpec",
    "InputKind",
    "Layers",
    "LeNetSpec",
    "MLPSpec",
    "MiniLMSpec",
    "Normalization",
    "ResNet18Spec",
    "ResNet50Spec",
    "SequentialEncoder",
    "encoders_for",
    "features_of",
    "input_kind",
    "make_encoder",
    "register_encoder",
    "replace_head",
    "require_features",
    "spec_from_dict",
    "spec_to_dict",
    "with_features",
]
