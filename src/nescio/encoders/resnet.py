"""ResNet-18 and ResNet-50 (He et al. 2016), with a small stem for small pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from nescio._checks import require_whole
from nescio._kinds import InputKind
from nescio.encoders._layers import BatchNorm
from nescio.encoders._settings import require_dropout
from nescio.encoders.base import TORCH_LAYERS, Ability, EncoderSpec, EncoderWithHead, Layers
from nescio.errors import InputError

_WIDTHS = (64, 128, 256, 512)
_STEMS = ("small", "large")
_SMALL_SIDE = 64  # below it the large stem, which keeps a quarter of each side, would leave too little
_LEAST_SIDE = 8


@dataclass(frozen=True)
class _ResNetSpec(EncoderSpec, abstract=True):
    """What ResNets of all depths have in common."""

    inputs: ClassVar[InputKind] = InputKind.IMAGES
    abilities: ClassVar[frozenset[Ability]] = frozenset({Ability.DROPOUT, Ability.FEATURES})
    blocks: ClassVar[tuple[int, ...]]
    has_bottlenecks: ClassVar[bool]
    in_channels: int = 3
    height: int = 224
    width: int = 224
    num_classes: int = 10
    stem: str = "large"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("in_channels", "height", "width", "num_classes"):
            require_whole(name, getattr(self, name))
        if min(self.height, self.width) < _LEAST_SIDE:
            raise InputError(
                f"images of {self.height} x {self.width} are too small for {self.kind}; "
                f"at least {_LEAST_SIDE} x {_LEAST_SIDE}"
            )
        if self.stem not in _STEMS:
            raise InputError(f"stem must be small or large, got {self.stem!r}")
        require_dropout(self.dropout)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(channels, height, width)."""
        return self.in_channels, self.height, self.width

    @property
    def num_features(self) -> int:
        """F: the channels of the last block, for pictures of any size."""
        return _WIDTHS[-1] * (4 if self.has_bottlenecks else 1)

    @classmethod
    def fields_for(cls, input_shape: Sequence[int], num_classes: int) -> dict[str, Any]:
        """in_channels, height, width, num_classes, and the small stem for sides below 64 pixels."""
        channels, height, width = input_shape
        stem = "small" if min(height, width) < _SMALL_SIDE else "large"
        return {
            "in_channels": channels,
            "height": height,
            "width": width,
            "num_classes": num_classes,
            "stem": stem,
        }

    def build(self, layers: Layers = TORCH_LAYERS) -> EncoderWithHead:
        """A new network from images (N, C, H, W) to logits (N, K).

        Args:
            layers: Not used: its convolutions have strides and no biases, which other layers lack.
        """
        modules = _stem(self.in_channels, self.stem)
        make_block = _bottleneck if self.has_bottlenecks else _basic
        channels = _WIDTHS[0]
        for stage, (width, count) in enumerate(zip(_WIDTHS, self.blocks, strict=True)):
            for number in range(count):
                # Every stage but the first begins by halving the picture.
                stride = 2 if stage > 0 and number == 0 else 1
                block = make_block(channels, width, stride)
                modules.append(block)
                channels = block.channels
        modules += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        encoder = nn.Sequential(*modules)
        _initialise(encoder)
        return EncoderWithHead(encoder, nn.Linear(self.num_features, self.num_classes), self.dropout)


@dataclass(frozen=True)
class ResNet18Spec(_ResNetSpec):
    """ResNet-18 for images of any size, trained from the start: 11.2 million weights, 512 features.

    Args:
        in_channels: Number of image channels.
        height: Height of the images; at least 8.
        width: Width of the images; at least 8.
        num_classes: K.
        stem: "large" begins with a convolution of 7 x 7 and pooling, which keep a quarter of each side;
            "small", for pictures below 64 pixels, with one of 3 x 3 that keeps all.
        dropout: The share of features that are switched off before the head in training.

    Raises:
        InputError: If a setting does not fit.

    Example:
        >>> import torch
        >>> network = ResNet18Spec.for_inputs((1, 28, 28), 10).build()
        >>> network(torch.zeros(2, 1, 28, 28)).shape
        torch.Size([2, 10])
    """

    kind: ClassVar[str] = "resnet18"
    about: ClassVar[str] = "ResNet-18 for images, trained from the start"
    blocks: ClassVar[tuple[int, ...]] = (2, 2, 2, 2)
    has_bottlenecks: ClassVar[bool] = False


@dataclass(frozen=True)
class ResNet50Spec(_ResNetSpec):
    """ResNet-50 for images of any size, trained from the start: 23.5 million weights, 2048 features.

    Args:
        in_channels: Number of image channels.
        height: Height of the images; at least 8.
        width: Width of the images; at least 8.
        num_classes: K.
        stem: "large" or "small", as for `ResNet18Spec`.
        dropout: The share of features that are switched off before the head in training.

    Raises:
        InputError: If a setting does not fit.

    Example:
        >>> ResNet50Spec.for_inputs((3, 96, 96), 10)
        ResNet50Spec(in_channels=3, height=96, width=96, num_classes=10, stem='large', dropout=0.0)
    """

    kind: ClassVar[str] = "resnet50"
    about: ClassVar[str] = "ResNet-50 for images, trained from the start"
    blocks: ClassVar[tuple[int, ...]] = (3, 4, 6, 3)
    has_bottlenecks: ClassVar[bool] = True


class _ResidualBlock(nn.Module):
    """Some layers, and a way around them. channels: of its output."""

    def __init__(self, layers: nn.Sequential, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.channels = outputs
        self.layers = layers
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(_convolution(inputs, outputs, 1, stride), BatchNorm(outputs))
        self.rectifier = nn.ReLU(inplace=True)

    def forward(self, inputs: Tensor) -> Tensor:
        """(N, C, H, W) to (N, C', H', W')."""
        outputs: Tensor = self.rectifier(self.layers(inputs) + self.shortcut(inputs))
        return outputs


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


def _stem(in_channels: int, stem: str) -> list[nn.Module]:
    width = _WIDTHS[0]
    if stem == "small":
        return [_convolution(in_channels, width, 3), BatchNorm(width), nn.ReLU(inplace=True)]
    return [
        _convolution(in_channels, width, 7, stride=2),
        BatchNorm(width),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, stride=2, padding=1),
    ]


def _basic(inputs: int, width: int, stride: int) -> _ResidualBlock:
    """Two 3 x 3 convolutions, as in ResNet-18."""
    layers = nn.Sequential(
        _convolution(inputs, width, 3, stride),
        BatchNorm(width),
        nn.ReLU(inplace=True),
        _convolution(width, width, 3),
        BatchNorm(width),
    )
    return _ResidualBlock(layers, inputs, width, stride)


def _bottleneck(inputs: int, width: int, stride: int) -> _ResidualBlock:
    """A 3 x 3 convolution between two of 1 x 1, with four times the channels at its end, as in ResNet-50."""
    outputs = 4 * width
    layers = nn.Sequential(
        _convolution(inputs, width, 1),
        BatchNorm(width),
        nn.ReLU(inplace=True),
        _convolution(width, width, 3, stride),
        BatchNorm(width),
        nn.ReLU(inplace=True),
        _convolution(width, outputs, 1),
        BatchNorm(outputs),
    )
    return _ResidualBlock(layers, inputs, outputs, stride)


def _initialise(network: nn.Module) -> None:
    """He's for the convolutions; a block starts as its shortcut, by its last normalisation at zero."""
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        if isinstance(layer, _ResidualBlock):
            last = layer.layers[-1]
            assert isinstance(last, BatchNorm)
            nn.init.zeros_(last.weight)
