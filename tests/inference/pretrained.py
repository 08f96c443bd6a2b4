"""A small encoder with "pretrained" weights that need no network: for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from nescio._kinds import InputKind
from nescio.encoders import Ability, EncoderSpec, EncoderWithHead, Normalization, register_encoder

FEATURES = 24


@register_encoder
@dataclass(frozen=True)
class TinySpec(EncoderSpec):
    """Two convolutions; its weights are drawn from a seed of their own."""

    kind: ClassVar[str] = "tiny-pretrained"
    about: ClassVar[str] = "two convolutions, for tests"
    inputs: ClassVar[InputKind] = InputKind.IMAGES
    abilities: ClassVar[frozenset[Ability]] = frozenset({Ability.FEATURES, Ability.PRETRAINED})
    default_shape: ClassVar[tuple[int, ...] | None] = (3, 160, 160)
    side: int
    num_classes: int

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (3, self.side, self.side)

    @property
    def num_features(self) -> int:
        return FEATURES

    @property
    def normalization(self) -> Normalization:
        return Normalization((127.0,) * 3, (128.0,) * 3)

    @classmethod
    def fields_for(cls, input_shape: Sequence[int], num_classes: int) -> dict[str, Any]:
        return {"side": input_shape[1], "num_classes": num_classes}

    def build(self, layers: Any = None) -> EncoderWithHead:
        convolutions = nn.Sequential(
            nn.Conv2d(3, 8, 5, stride=4),
            nn.ReLU(),
            nn.Conv2d(8, FEATURES, 5, stride=4),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        return EncoderWithHead(convolutions, nn.Linear(FEATURES, self.num_classes))

    def pretrained_weights(self) -> dict[str, Tensor]:
        with torch.random.fork_rng():
            torch.manual_seed(7)
            state = self.build().state_dict()
        return {name: value for name, value in state.items() if not name.startswith("head.")}
