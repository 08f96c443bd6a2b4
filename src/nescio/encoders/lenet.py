"""The paper's LeNet for images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from nescio._checks import require_whole
from nescio._kinds import InputKind
from nescio.encoders._settings import require_dropout, whole_numbers
from nescio.encoders.base import (
    TORCH_LAYERS,
    Ability,
    EncoderSpec,
    Layers,
    SequentialEncoder,
)
from nescio.errors import InputError

_KERNEL_SIZE = 5
# By the padding, the least height and width that leave one place after both poolings.
_LEAST_SIDE = {"valid": 16, "same": 4}
_INITIALISATIONS = ("torch", "glorot", "notebook")


@dataclass(frozen=True)
class LeNetSpec(EncoderSpec):
    """The paper's LeNet: two 5x5 convolutions with 2x2 max-pooling, one hidden layer.

    Args:
        in_channels: Number of image channels.
        height: Height of the images; at least 16, or 4 with padding "same".
        width: Width of the images; at least 16, or 4 with padding "same".
        num_classes: Number of classes, K.
        filters: Number of filters of each of the two convolutions.
        hidden: Number of units of the hidden layer.
        padding: "valid" shrinks the image with each convolution, "same" keeps its size.
        dropout: The share of hidden units that are switched off in training.
        initialisation: "torch"; "glorot", uniform with biases at zero as TensorFlow has it; or "notebook",
            as in the notebook of the paper's author.

    Raises:
        InputError: If a setting does not fit.

    Example:
        >>> import torch
        >>> network = LeNetSpec(in_channels=3, height=32, width=32, num_classes=5).build()
        >>> network(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 5])
    """

    kind: ClassVar[str] = "lenet"
    about: ClassVar[str] = "the paper's LeNet for small images: two convolutions and a hidden layer"
    inputs: ClassVar[InputKind] = InputKind.IMAGES
    abilities: ClassVar[frozenset[Ability]] = frozenset({Ability.DROPOUT, Ability.LAYERS, Ability.FEATURES})

    in_channels: int = 1
    height: int = 28
    width: int = 28
    num_classes: int = 10
    filters: tuple[int, int] = (20, 50)
    hidden: int = 500
    padding: str = "valid"
    dropout: float = 0.5
    initialisation: str = "torch"

    def __post_init__(self) -> None:
        if not isinstance(self.padding, str) or self.padding not in _LEAST_SIDE:
            raise InputError(f"padding must be valid or same, got {self.padding!r}")
        if self.initialisation not in _INITIALISATIONS:
            known = ", ".join(_INITIALISATIONS)
            raise InputError(f"initialisation must be {known}, got {self.initialisation!r}")
        object.__setattr__(self, "filters", whole_numbers("filters", self.filters))
        if len(self.filters) != 2:
            raise InputError(f"filters must be two whole numbers, got {self.filters}")
        for name in ("in_channels", "height", "width", "num_classes", "hidden"):
            require_whole(name, getattr(self, name))
        least = _LEAST_SIDE[self.padding]
        if min(self.height, self.width) < least:
            raise InputError(
                f"images of {self.height} x {self.width} are too small for LeNet with padding "
                f"{self.padding}; at least {least} x {least}"
            )
        require_dropout(self.dropout)

    def build(self, layers: Layers = TORCH_LAYERS) -> SequentialEncoder:
        """Build a new network from images (N, C, H, W) to logits (N, K).

        Args:
            layers: Functions that make its layers; torch's own unless a method brings others.
        """
        first, second = self.filters
        border = 0 if self.padding == "valid" else _KERNEL_SIZE // 2
        height, width = self.feature_size
        # Pooling before the rectifier gives the same as after it, with a quarter of the work.
        network = SequentialEncoder(
            layers.convolution(self.in_channels, first, _KERNEL_SIZE, padding=border),
            nn.MaxPool2d(2),
            nn.ReLU(inplace=True),
            layers.convolution(first, second, _KERNEL_SIZE, padding=border),
            nn.MaxPool2d(2),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            layers.linear(second * height * width, self.hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(self.dropout),
            layers.linear(self.hidden, self.num_classes),
        )
        if self.initialisation == "glorot":
            _initialise_as_glorot(network)
        if self.initialisation == "notebook":
            _initialise_as_in_notebook(network)
        return network

    @classmethod
    def cifar5(cls) -> LeNetSpec:
        """The large one that the paper trains on five classes of CIFAR-10."""
        return cls(3, 32, 32, num_classes=5, filters=(192, 192), hidden=1000)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(channels, height, width)."""
        return self.in_channels, self.height, self.width

    @property
    def num_features(self) -> int:
        """F: the units of the hidden layer."""
        return self.hidden

    @property
    def distance_layer(self) -> str:
        """The outputs of the second convolution: the hidden layer keeps little of what is unusual."""
        return "6"

    @property
    def feature_size(self) -> tuple[int, int]:
        """Height and width after both convolutions and poolings."""
        return self._after_convolutions(self.height), self._after_convolutions(self.width)

    def _after_convolutions(self, side: int) -> int:
        lost = _KERNEL_SIZE - 1 if self.padding == "valid" else 0
        after_first = (side - lost) // 2
        return (after_first - lost) // 2

    @classmethod
    def fields_for(cls, input_shape: Sequence[int], num_classes: int) -> dict[str, Any]:
        """in_channels, height, width and num_classes."""
        channels, height, width = input_shape
        return {"in_channels": channels, "height": height, "width": width, "num_classes": num_classes}


def _initialise_as_glorot(network: nn.Module) -> None:
    """Weights uniform within sqrt(6 / (inputs + outputs)), biases zero, in place (Glorot & Bengio 2010)."""
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)


@torch.no_grad()
def _initialise_as_in_notebook(network: nn.Module) -> None:
    """Weights and biases as the notebook of the paper's author starts them, in place.

    All are truncated normal (at two standard deviations) with the deviation sqrt(2 / n), where n is the first
    number of the tensor's shape as TensorFlow has it: 5 for the kernels of a convolution of 5 x 5, the inputs
    of a dense layer, and the length of a bias.
    """
    for layer in network.modules():
        if not isinstance(layer, nn.Conv2d | nn.Linear):
            continue
        first = layer.kernel_size[0] if isinstance(layer, nn.Conv2d) else layer.in_features
        assert layer.bias is not None
        for tensor, size in ((layer.weight, first), (layer.bias, len(layer.bias))):
            deviation = math.sqrt(2 / size)
            nn.init.trunc_normal_(tensor, std=deviation, a=-2 * deviation, b=2 * deviation)
