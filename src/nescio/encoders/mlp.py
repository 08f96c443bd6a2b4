"""A multi-layer perceptron for rows of numbers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from nescio._checks import require_whole
from nescio._kinds import InputKind
from nescio.encoders._settings import require_dropout, whole_numbers
from nescio.encoders.base import (
    INPUTS,
    TORCH_LAYERS,
    Ability,
    EncoderSpec,
    Layers,
    SequentialEncoder,
)


@dataclass(frozen=True)
class MLPSpec(EncoderSpec):
    """A multi-layer perceptron: dense layers with rectifiers and dropout between them.

    Args:
        in_features: Number of values in a row.
        num_classes: Number of classes, K.
        hidden: Number of units of each hidden layer; empty for a linear classifier.
        dropout: The share of hidden units that are switched off in training.

    Raises:
        InputError: If a setting does not fit.

    Example:
        >>> import torch
        >>> network = MLPSpec(in_features=4, num_classes=3).build()
        >>> network(torch.zeros(2, 4)).shape
        torch.Size([2, 3])
    """

    kind: ClassVar[str] = "mlp"
    about: ClassVar[str] = "a multi-layer perceptron for rows of numbers"
    inputs: ClassVar[InputKind] = InputKind.ROWS
    abilities: ClassVar[frozenset[Ability]] = frozenset({Ability.DROPOUT, Ability.LAYERS, Ability.FEATURES})

    in_features: int
    num_classes: int
    hidden: tuple[int, ...] = (256, 256)
    dropout: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", whole_numbers("hidden", self.hidden))
        require_whole("in_features", self.in_features)
        require_whole("num_classes", self.num_classes)
        require_dropout(self.dropout)

    def build(self, layers: Layers = TORCH_LAYERS) -> SequentialEncoder:
        """Build a new network from rows (N, in_features) to logits (N, K).

        Args:
            layers: Functions that make its layers; torch's own unless a method brings others.
        """
        sizes = (self.in_features, *self.hidden)
        modules: list[nn.Module] = []
        for before, after in itertools.pairwise(sizes):
            modules.append(layers.linear(before, after))
            modules.append(nn.ReLU(inplace=True))
            modules.append(nn.Dropout(self.dropout))
        head = layers.linear(sizes[-1], self.num_classes)
        return SequentialEncoder(*modules, head)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(features,)."""
        return (self.in_features,)

    @property
    def num_features(self) -> int:
        """F: units of the last hidden layer, or the inputs where there is none."""
        return (self.in_features, *self.hidden)[-1]

    @property
    def distance_layer(self) -> str:
        """The first hidden layer: later ones forget what is unusual; the rows where there is none."""
        if not self.hidden:
            return INPUTS
        return "1"

    @property
    def compares_directions(self) -> bool:
        """No: a row that is far from all others is known by its length."""
        return False

    @classmethod
    def fields_for(cls, input_shape: Sequence[int], num_classes: int) -> dict[str, Any]:
        """in_features and num_classes."""
        return {"in_features": input_shape[0], "num_classes": num_classes}
