"""EfficientNet-Lite0: a small network for photos, with weights from ImageNet.

As EfficientNet-B0 (Tan & Le 2019), but without squeeze-and-excitation and with ReLU6, so that it runs well
everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad

from nescio._checks import require_whole
from nescio._kinds import InputKind
from nescio.encoders._layers import BatchNorm
from nescio.encoders._settings import require_dropout
from nescio.encoders.base import (
    TORCH_LAYERS,
    Ability,
    EncoderSpec,
    EncoderWithHead,
    Layers,
    Normalization,
)
from nescio.errors import InputError

_NUM_FEATURES = 1280
_STEM_CHANNELS = 32
_LEAST_SIDE = 32
_OF_THE_HEAD = (
    "_fc."  # how the published names of the head's weights begin, which sort into ImageNet's classes
)


class _Stage(NamedTuple):
    """Blocks of one width; the first of them may halve the picture."""

    expansion: int
    channels: int
    blocks: int
    stride: int
    kernel: int


_STAGES = (
    _Stage(expansion=1, channels=16, blocks=1, stride=1, kernel=3),
    _Stage(expansion=6, channels=24, blocks=2, stride=2, kernel=3),
    _Stage(expansion=6, channels=40, blocks=2, stride=2, kernel=5),
    _Stage(expansion=6, channels=80, blocks=3, stride=2, kernel=3),
    _Stage(expansion=6, channels=112, blocks=3, stride=1, kernel=5),
    _Stage(expansion=6, channels=192, blocks=4, stride=2, kernel=5),
    _Stage(expansion=6, channels=320, blocks=1, stride=1, kernel=3),
)


@dataclass(frozen=True)
class EfficientNetLite0Spec(EncoderSpec):
    """EfficientNet-Lite0 for photos: 1280 features, with weights that were trained on ImageNet.

    Args:
        height: Height of the images, in three channels; at least 32, best 128 or more.
        width: Width of the images; at least 32, best 128 or more.
        num_classes: K.
        dropout: The share of features that are switched off before the head in training.

    Raises:
        InputError: If a setting does not fit.

    Example:
        >>> spec = EfficientNetLite0Spec(height=64, width=64, num_classes=5)
        >>> spec.build()(torch.zeros(2, 3, 64, 64)).shape
        torch.Size([2, 5])
    """

    kind: ClassVar[str] = "efficientnet-lite0"
    about: ClassVar[str] = "EfficientNet-Lite0 for photos, with weights from ImageNet"
    inputs: ClassVar[InputKind] = InputKind.IMAGES
    abilities: ClassVar[frozenset[Ability]] = frozenset(
        {Ability.DROPOUT, Ability.FEATURES, Ability.PRETRAINED}
    )
    default_shape: ClassVar[tuple[int, ...] | None] = (3, 224, 224)
    height: int = 224
    width: int = 224
    num_classes: int = 10
    dropout: float = 0.2

    def __post_init__(self) -> None:
        for name in ("height", "width", "num_classes"):
            require_whole(name, getattr(self, name))
        if min(self.height, self.width) < _LEAST_SIDE:
            raise InputError(
                f"images of {self.height} x {self.width} are too small for {self.kind}; "
                f"at least {_LEAST_SIDE} x {_LEAST_SIDE}"
            )
        require_dropout(self.dropout)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(3, height, width)."""
        return 3, self.height, self.width

    @property
    def num_features(self) -> int:
        """F: 1280, for pictures of any size."""
        return _NUM_FEATURES

    @property
    def normalization(self) -> Normalization:
        """From 8-bit channels to about -1 to 1, as the weights were trained."""
        return Normalization(mean=(127.0,) * 3, scale=(128.0,) * 3)

    @classmethod
    def fields_for(cls, input_shape: Sequence[int], num_classes: int) -> dict[str, Any]:
        """height, width and num_classes."""
        channels, height, width = input_shape
        if channels != 3:
            raise InputError(f"the encoder {cls.kind} takes images in 3 channels (RGB), got {channels}")
        return {"height": height, "width": width, "num_classes": num_classes}

    def build(self, layers: Layers = TORCH_LAYERS) -> EncoderWithHead:
        """A new network from images (N, 3, H, W) to logits (N, K), with weights drawn at random.

        Args:
            layers: Not used: its convolutions have groups and strides, which other layers lack.
        """
        return EncoderWithHead(_layers(), nn.Linear(_NUM_FEATURES, self.num_classes), self.dropout)

    def pretrained_weights(self) -> dict[str, Tensor]:
        """The weights from ImageNet, by the names of the network's state, without the head."""
        # Imported here: what fetches is not waited for by those who do not fetch.
        from nescio._fetch.weights import EFFICIENTNET_LITE0
        from nescio.encoders._weights import tensors_of_pickle

        return tensors_of_pickle(EFFICIENTNET_LITE0, _by_our_names)


class _SamePadConv2d(nn.Conv2d):
    """A convolution whose output has ceil(size / stride) places, as TensorFlow's padding SAME.

    With a stride of 2 the border is wider at the right and at the bottom. The weights were trained with it.
    """

    def forward(self, inputs: Tensor) -> Tensor:
        """(N, C, H, W) to (N, C', ceil(H / stride), ceil(W / stride))."""
        rows = self._missing(inputs.shape[2])
        columns = self._missing(inputs.shape[3])
        border = (rows // 2, columns // 2)
        if rows % 2 or columns % 2:
            inputs = pad(inputs, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))
            border = (0, 0)
        # The same border on both sides is the convolution's own: no copy of its inputs is made.
        return conv2d(inputs, self.weight, self.bias, self.stride, border, self.dilation, self.groups)

    def _missing(self, side: int) -> int:
        """Pixels that the side lacks, so that the kernel fits at every place."""
        kernel = self.kernel_size[0]
        stride = self.stride[0]
        places = (side + stride - 1) // stride
        return max((places - 1) * stride + kernel - side, 0)


class _Block(nn.Module):
    """Inverted residual: expand the channels, convolve each on its own, project them back."""

    def __init__(self, inputs: int, outputs: int, stage: _Stage, stride: int) -> None:
        super().__init__()
        inner = inputs * stage.expansion
        layers: list[nn.Module] = []
        if stage.expansion > 1:
            layers += [nn.Conv2d(inputs, inner, 1, bias=False), _normalized(inner), nn.ReLU6(inplace=True)]
        layers += [
            _SamePadConv2d(inner, inner, stage.kernel, stride, groups=inner, bias=False),
            _normalized(inner),
            nn.ReLU6(inplace=True),
            nn.Conv2d(inner, outputs, 1, bias=False),
            _normalized(outputs),
        ]
        self.layers = nn.Sequential(*layers)
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, inputs: Tensor) -> Tensor:
        """(N, C, H, W) to (N, C', H', W')."""
        outputs: Tensor = self.layers(inputs)
        if self.is_residual:
            outputs = outputs + inputs
        return outputs


def _normalized(channels: int) -> BatchNorm:
    return BatchNorm(channels, eps=1e-3, momentum=0.01)


def _layers() -> nn.Sequential:
    """The network up to its features: images (N, 3, H, W) to (N, 1280)."""
    layers: list[nn.Module] = [
        _SamePadConv2d(3, _STEM_CHANNELS, 3, 2, bias=False),
        _normalized(_STEM_CHANNELS),
        nn.ReLU6(inplace=True),
    ]
    channels = _STEM_CHANNELS
    for stage in _STAGES:
        stride = stage.stride
        for _ in range(stage.blocks):
            layers.append(_Block(channels, stage.channels, stage, stride))
            channels = stage.channels
            stride = 1
    layers += [
        nn.Conv2d(channels, _NUM_FEATURES, 1, bias=False),
        _normalized(_NUM_FEATURES),
        nn.ReLU6(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    ]
    network = nn.Sequential(*layers)
    _initialise(network)
    return network


def _initialise(network: nn.Module) -> None:
    """He's for the convolutions, by the weights that lead out of a channel; a group has its own."""
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            leading_out = layer.kernel_size[0] ** 2 * layer.out_channels // layer.groups
            nn.init.normal_(layer.weight, std=math.sqrt(2 / leading_out))


def _by_our_names(published: dict[str, Tensor]) -> dict[str, Tensor]:
    from nescio.encoders._weights import renamed

    with torch.device("meta"):  # names and shapes are wanted, not a second network
        expected = _layers().state_dict()
    # Both list the same tensors in the same order; ours end before the head.
    theirs = [name for name in published if not name.startswith(_OF_THE_HEAD)]
    ours = dict(zip(theirs, expected, strict=False))
    tensors = renamed(published, ours.get, expected)
    return {f"encoder.{name}": tensor for name, tensor in tensors.items()}
