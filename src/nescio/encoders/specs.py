"""Networks as data: a spec says what to build, can be written to a model file, and builds it.

A method may build the same spec from other layers than torch's own, so that a spec asks for its layers.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import nn

from nescio.errors import InputError

# By the padding, the least height and width that leave one feature after both poolings.
LEAST_SIDE = {"valid": 16, "same": 4}
INITIALISATIONS = ("torch", "glorot", "notebook")


@dataclass(frozen=True)
class Layers:
    """What a network is built from: (in, out, kernel size, padding) and (in, out)."""

    convolution: Callable[..., nn.Module] = nn.Conv2d
    linear: Callable[..., nn.Module] = nn.Linear


class NetworkSpec(Protocol):
    """A network that can be built, from data that can be written down."""

    kind: ClassVar[str]

    @property
    def num_classes(self) -> int:
        """K."""
        ...

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one input, without the batch axis."""
        ...

    def build(self, layers: Layers = ...) -> nn.Module:
        """A new network with logits (N, K) as its output."""
        ...


@dataclass(frozen=True)
class LeNetSpec:
    """The paper's LeNet: two 5x5 convolutions with 2x2 max-pooling, one hidden layer.

    padding "valid" shrinks the image with each convolution, "same" keeps its size; dropout is the share
    of hidden units that are switched off in training. initialisation: "torch"; "glorot", uniform with
    biases at zero as TensorFlow has it; or "notebook" as in the notebook of the paper's author.
    """

    kind: ClassVar[str] = "lenet"
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
        if self.padding not in LEAST_SIDE:
            raise InputError(f"padding must be valid or same, got {self.padding!r}")
        if self.initialisation not in INITIALISATIONS:
            known = ", ".join(INITIALISATIONS)
            raise InputError(f"initialisation must be {known}, got {self.initialisation!r}")
        object.__setattr__(self, "filters", _sizes("filters", self.filters))
        if len(self.filters) != 2:
            raise InputError(f"filters must be two whole numbers, got {self.filters}")
        for name in ("in_channels", "height", "width", "num_classes", "hidden"):
            _require_size(name, getattr(self, name))
        least = LEAST_SIDE[self.padding]
        if min(self.height, self.width) < least:
            raise InputError(
                f"images of {self.height} x {self.width} are too small for LeNet with padding "
                f"{self.padding}; at least {least} x {least}"
            )
        _require_dropout(self.dropout)

    @classmethod
    def cifar5(cls) -> LeNetSpec:
        """The large one that the paper trains on five classes of CIFAR-10."""
        return cls(3, 32, 32, num_classes=5, filters=(192, 192), hidden=1000)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(channels, height, width)."""
        return self.in_channels, self.height, self.width

    @property
    def feature_size(self) -> tuple[int, int]:
        """Height and width after both convolutions and poolings."""
        lost = 4 if self.padding == "valid" else 0
        height, width = (((side - lost) // 2 - lost) // 2 for side in (self.height, self.width))
        return height, width

    def build(self, layers: Layers = Layers()) -> nn.Module:  # noqa: B008
        """A new network."""
        first, second = self.filters
        border = 0 if self.padding == "valid" else 2
        height, width = self.feature_size
        # Pooling before the rectifier gives the same as after it, with a quarter of the work.
        network = nn.Sequential(
            layers.convolution(self.in_channels, first, 5, padding=border),
            nn.MaxPool2d(2),
            nn.ReLU(inplace=True),
            layers.convolution(first, second, 5, padding=border),
            nn.MaxPool2d(2),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            layers.linear(second * height * width, self.hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(self.dropout),
            layers.linear(self.hidden, self.num_classes),
        )
        if self.initialisation == "glorot":
            initialise_as_glorot(network)
        if self.initialisation == "notebook":
            initialise_as_in_notebook(network)
        return network


def initialise_as_glorot(network: nn.Module) -> None:
    """Weights uniform within sqrt(6 / (inputs + outputs)), biases zero, in place (Glorot & Bengio 2010)."""
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)


@torch.no_grad()
def initialise_as_in_notebook(network: nn.Module) -> None:
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


@dataclass(frozen=True)
class MLPSpec:
    """A multi-layer perceptron for rows of numbers."""

    kind: ClassVar[str] = "mlp"
    in_features: int
    num_classes: int
    hidden: tuple[int, ...] = (64, 64)
    dropout: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", _sizes("hidden", self.hidden))
        for name in ("in_features", "num_classes"):
            _require_size(name, getattr(self, name))
        _require_dropout(self.dropout)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(features,)."""
        return (self.in_features,)

    def build(self, layers: Layers = Layers()) -> nn.Module:  # noqa: B008
        """A new network."""
        sizes, modules = (self.in_features, *self.hidden), []
        for before, after in itertools.pairwise(sizes):
            modules += [layers.linear(before, after), nn.ReLU(inplace=True), nn.Dropout(self.dropout)]
        return nn.Sequential(*modules, layers.linear(sizes[-1], self.num_classes))


SPECS: dict[str, type[LeNetSpec] | type[MLPSpec]] = {spec.kind: spec for spec in (LeNetSpec, MLPSpec)}


def spec_to_dict(spec: LeNetSpec | MLPSpec) -> dict[str, Any]:
    """As plain data, for a model file."""
    return {"kind": spec.kind, **dataclasses.asdict(spec)}


def spec_from_dict(data: Mapping[str, Any]) -> LeNetSpec | MLPSpec:
    """Back from plain data; what does not fit is refused."""
    settings = dict(data)
    kind = settings.pop("kind", None)
    if kind not in SPECS:
        raise InputError(f"network kind must be one of {', '.join(SPECS)}, got {kind!r}")
    try:
        return SPECS[kind](**settings)
    except TypeError as error:
        raise InputError(f"network settings do not fit {kind}: {error}") from error


def _sizes(name: str, values: object) -> tuple[int, ...]:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise InputError(f"{name} must be a list of whole numbers, got {values!r}")
    for value in values:
        _require_size(name, value)
    return tuple(values)


def _require_size(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name} must be a whole number from 1 on, got {value!r}")


def _require_dropout(dropout: object) -> None:
    if not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise InputError(f"dropout must be 0 or more and below 1, got {dropout!r}")
