"""What an encoder is: a spec, which is plain data and can build, and the network that it builds.

The network turns inputs into features and has a head on top that turns features into logits. A method may
need abilities of an encoder; each spec declares which it has.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from torch import Tensor, nn

from nescio._kinds import InputKind
from nescio._registry import require_defined, with_settings
from nescio.encoders._fourier import Conv2d
from nescio.errors import InputError


class Ability(Enum):
    """What methods may ask of an encoder.

    DROPOUT: its spec has a field `dropout`, the share of units that are switched off by chance in training.
    LAYERS: it can be built from other layers than torch's own; `build` takes `layers`.
    FEATURES: its network has `features(inputs)` (N, F) and `head`, and its spec knows `num_features`.
    PRETRAINED: its `pretrained_weights()` fetches weights that were trained before, on other data.

    Example:
        >>> from nescio.encoders import MLPSpec
        >>> Ability.DROPOUT in MLPSpec.abilities
        True
    """

    DROPOUT = "dropout"
    LAYERS = "layers"
    FEATURES = "features"
    PRETRAINED = "pretrained"


class Normalization(NamedTuple):
    """How raw 8-bit channels become what a network was trained on: (value - mean) / scale.

    Args:
        mean: Subtracted, one number for each channel.
        scale: Divided by, one number for each channel.

    Example:
        >>> around_zero = Normalization(mean=(127.0,), scale=(128.0,))
        >>> (255 - around_zero.mean[0]) / around_zero.scale[0]
        1.0
    """

    mean: tuple[float, ...]
    scale: tuple[float, ...]


@dataclass(frozen=True)
class Layers:
    """What a network is built from.

    Args:
        convolution: Function that makes a convolution from channels in, channels out, kernel size and
            `padding=`.
        linear: Function that makes a dense layer from features in and features out.

    Example:
        >>> from functools import partial
        >>> from nescio.encoders import MLPSpec
        >>> without_bias = Layers(linear=partial(nn.Linear, bias=False))
        >>> list(MLPSpec(4, 3, hidden=()).build(without_bias).state_dict())
        ['0.weight']
    """

    convolution: Callable[..., nn.Module] = Conv2d
    linear: Callable[..., nn.Module] = nn.Linear


TORCH_LAYERS = Layers()

# What `EncoderSpec.distance_layer` may be, beside the name of a layer.
INPUTS = "inputs"  # what the network takes
FEATURES = "features"  # what its head takes

Spec = TypeVar("Spec", bound="EncoderSpec")

# By the number of axes, what an input is where nobody has said it; ids of tokens look like rows.
_GUESSED = {3: InputKind.IMAGES, 1: InputKind.ROWS}
_NUM_AXES = {InputKind.IMAGES: 3, InputKind.ROWS: 1, InputKind.TEXTS: 1}
_REQUIRED = {
    "kind": "its name, as users and files give it",
    "about": "one line for people",
    "inputs": "an InputKind",
    "abilities": "a frozenset of Ability",
    "fields_for": "the fields that the data decide",
    "build": "a new network",
}


class EncoderSpec(ABC):
    """An encoder as plain data: a frozen dataclass of settings that can build the network.

    A new one is a class with what is listed here, registered by `register_encoder` or by an entry point of
    the group `nescio.encoders`. What is missing is refused when the class is defined; a base class for
    several encoders says `class Base(EncoderSpec, abstract=True)`.

    Attributes:
        kind: Its name, as users give it and model files hold it.
        about: One line for people.
        inputs: What it takes.
        abilities: What methods may ask of it.
        num_classes: Number of classes K, a field of every spec.
        input_shape: Shape of one input, without the batch axis: a field or a property of every spec.
        default_shape: Shape of one input where the data leave it open, as pretrained encoders like it; None
            where the data decide.
        normalization: What is subtracted from the raw 8-bit channels of images, and what they are divided by
            then; None where the data decide.

    Example:
        >>> from dataclasses import dataclass
        >>> from nescio.encoders import EncoderSpec, InputKind
        >>> @dataclass(frozen=True)
        ... class LinearSpec(EncoderSpec):
        ...     kind = "linear"
        ...     about = "one dense layer"
        ...     inputs = InputKind.ROWS
        ...     abilities = frozenset()
        ...     input_shape: tuple[int, ...]
        ...     num_classes: int
        ...
        ...     @classmethod
        ...     def fields_for(cls, input_shape, num_classes):
        ...         return {"input_shape": tuple(input_shape), "num_classes": num_classes}
        ...
        ...     def build(self, layers=None):
        ...         return nn.Linear(self.input_shape[0], self.num_classes)
        >>> LinearSpec.for_inputs((4,), 3).build()
        Linear(in_features=4, out_features=3, bias=True)
    """

    kind: ClassVar[str]
    about: ClassVar[str]
    inputs: ClassVar[InputKind]
    abilities: ClassVar[frozenset[Ability]]
    default_shape: ClassVar[tuple[int, ...] | None] = None
    # Fields that came after files were written: their defaults are not written, and mean what was before.
    later_fields: ClassVar[tuple[str, ...]] = ()
    num_classes: int

    def __init_subclass__(cls, abstract: bool = False, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if not abstract:
            require_defined(cls, EncoderSpec, _REQUIRED)

    if TYPE_CHECKING:
        # At run time there is nothing, so that a spec may have a field of this name as well as a property.
        @property
        def input_shape(self) -> tuple[int, ...]:
            """The shape of one input."""
            ...

    @classmethod
    @abstractmethod
    def fields_for(cls, input_shape: Sequence[int], num_classes: int) -> dict[str, Any]:
        """The fields that the data decide, for inputs of this shape and so many classes."""

    @abstractmethod
    def build(self, layers: Layers = TORCH_LAYERS) -> nn.Module:
        """A new network from inputs (N, ...) to logits (N, K).

        Args:
            layers: What to build it from; other than the default only where `Ability.LAYERS` is declared.
        """

    @property
    def num_features(self) -> int:
        """F, the number of features that the head sees; defined where `Ability.FEATURES` is declared."""
        raise InputError(f"the encoder {self.kind} has no features")

    @property
    def normalization(self) -> Normalization | None:
        """How raw 8-bit channels become inputs; None where the data decide."""
        return None

    @property
    def distance_layer(self) -> str:
        """Where distances to the training data are measured, see `nescio.posthoc.Trust`.

        The name of a layer of the network that `build` gives, whose outputs are taken in one row for each
        input; "features" for what the head takes, or "inputs" for what the network takes.
        """
        return FEATURES

    @property
    def compares_directions(self) -> bool:
        """Whether what that layer gives is brought to length one before distances are measured.

        The length of what convolutions give says how strong a pattern is, not how usual.
        """
        return True

    def pretrained_weights(self) -> dict[str, Tensor]:
        """Weights that were trained before, for the network that `build` gives, without those of its head.

        They are fetched where they are not here, and verified. Defined where `Ability.PRETRAINED` is
        declared.

        Returns:
            Tensors by the names of the network's state dict, less all that start with "head.".

        Raises:
            InputError: If the encoder has none.
            FetchError: If they can't be had; the message lists what was tried, and what to do.
        """
        raise InputError(f"the encoder {self.kind} has no pretrained weights")

    @property
    def text_padding(self) -> int:
        """The id of a token that a text encoder wants behind the end of a text."""
        return 0

    def tokenizer_json(self) -> str:
        """The tokenizer of a text encoder, as the JSON that the library `tokenizers` reads.

        Raises:
            InputError: If the encoder takes no texts.
            FetchError: If it can't be had.
        """
        raise InputError(f"the encoder {self.kind} takes {self.inputs.value}, and has no tokenizer")

    @classmethod
    def for_inputs(cls: type[Spec], input_shape: Sequence[int], num_classes: int, /, **settings: Any) -> Spec:
        """The spec for inputs of a shape.

        Args:
            input_shape: Shape of one input, without the batch axis.
            num_classes: K.
            settings: Fields that are not to have their defaults.

        Returns:
            The spec, checked.

        Raises:
            InputError: If the encoder does not take such inputs, or a setting does not fit.

        Example:
            >>> from nescio.encoders import MLPSpec
            >>> MLPSpec.for_inputs((4,), 3, hidden=(16,))
            MLPSpec(in_features=4, num_classes=3, hidden=(16,), dropout=0.0)
        """
        if not has_axes_of(cls.inputs, input_shape):
            kind = input_kind(input_shape)
            raise InputError(
                f"the encoder {cls.kind} takes {cls.inputs.value}, got {kind.value} of shape "
                f"{tuple(input_shape)}"
            )
        fields = cls.fields_for(input_shape, num_classes)
        return with_settings(f"the encoder {cls.kind}", cls, {**fields, **settings})

    def with_dropout(self: Spec, share: float) -> Spec:
        """The same spec with this share of dropout.

        Args:
            share: Share of the units that are switched off in training, from 0 to below 1.

        Raises:
            InputError: If the encoder declares no dropout, or the share does not fit.

        Example:
            >>> from nescio.encoders import MLPSpec
            >>> MLPSpec(4, 3).with_dropout(0.5).dropout
            0.5
        """
        if Ability.DROPOUT not in self.abilities:
            raise InputError(f"the encoder {self.kind} has no dropout that could be set")
        return dataclasses.replace(self, dropout=share)  # type: ignore[type-var]

    def without_dropout(self: Spec) -> Spec:
        """The same spec with its dropout, where it has any, switched off."""
        if Ability.DROPOUT not in self.abilities:
            return self
        return self.with_dropout(0.0)


class SequentialEncoder(nn.Sequential):
    """A network of layers one after the other, the last of which is the head.

    Example:
        >>> import torch
        >>> network = SequentialEncoder(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> inputs = torch.zeros(2, 4)
        >>> network.features(inputs).shape
        torch.Size([2, 8])
        >>> torch.equal(network(inputs), network.head(network.features(inputs)))
        True
    """

    def features(self, inputs: Tensor) -> Tensor:
        """What the head sees.

        Args:
            inputs: (N, ...).

        Returns:
            Features (N, F).
        """
        features = inputs
        for layer in list(self)[:-1]:
            features = layer(features)
        return features

    @property
    def head(self) -> nn.Module:
        """From features (N, F) to logits (N, K)."""
        return self[-1]


class EncoderWithHead(nn.Module):
    """A network of an encoder, which gives features, and a head on top, with dropout between them.

    Args:
        encoder: Module from inputs (N, ...) to features (N, F).
        head: Module from features (N, F) to logits (N, K).
        dropout: The share of features that are switched off in training.

    Example:
        >>> import torch
        >>> network = EncoderWithHead(nn.Flatten(), nn.Linear(12, 3))
        >>> network.features(torch.zeros(2, 3, 2, 2)).shape
        torch.Size([2, 12])
        >>> network(torch.zeros(2, 3, 2, 2)).shape
        torch.Size([2, 3])
    """

    def __init__(self, encoder: nn.Module, head: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self.head = head

    def features(self, inputs: Tensor) -> Tensor:
        """What the head sees, before dropout.

        Args:
            inputs: (N, ...).

        Returns:
            Features (N, F).
        """
        features: Tensor = self.encoder(inputs)
        return features

    def forward(self, inputs: Tensor) -> Tensor:
        """(N, ...) to logits (N, K)."""
        logits: Tensor = self.head(self.dropout(self.features(inputs)))
        return logits


def features_of(module: nn.Module, inputs: Tensor) -> Tensor:
    """The features that a network computes.

    Args:
        module: A network with `features(inputs)`, as every encoder with `Ability.FEATURES` builds it.
        inputs: (N, ...).

    Returns:
        Features (N, F).

    Raises:
        InputError: If the network has no features, or gives them in another shape.

    Example:
        >>> import torch
        >>> from nescio.encoders import MLPSpec
        >>> features_of(MLPSpec(4, 3, hidden=(8,)).build(), torch.zeros(2, 4)).shape
        torch.Size([2, 8])
    """
    require_features(module)
    features = module.features(inputs)  # type: ignore[operator]
    if not isinstance(features, Tensor) or features.ndim != 2 or features.shape[0] != inputs.shape[0]:
        got = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise InputError(f"features(inputs) of the network must give (N, F), got {got}")
    return features


def require_features(module: nn.Module) -> None:
    """Refuse a network without `features(inputs)` and `head`.

    Args:
        module: Any network.

    Raises:
        InputError: If one of the two is missing.

    Example:
        >>> from nescio.encoders import MLPSpec
        >>> require_features(MLPSpec(4, 3).build())
    """
    has_head = isinstance(getattr(module, "head", None), nn.Module)
    if not callable(getattr(module, "features", None)) or not has_head:
        raise InputError(
            f"the network must have features(inputs), which gives (N, F), and head, a module from features "
            f"to logits; got a {type(module).__name__} without them"
        )


def replace_head(module: nn.Module, head: nn.Module) -> None:
    """Give a network another head, in place.

    Args:
        module: A network with `features(inputs)` and `head`.
        head: Module from features (N, F) to what the network is to give.

    Raises:
        InputError: If the network has no features, or its head is no part of it that could be replaced.

    Example:
        >>> import torch
        >>> from nescio.encoders import MLPSpec
        >>> network = MLPSpec(4, 3, hidden=(8,)).build()
        >>> replace_head(network, nn.Linear(8, 5))
        >>> network(torch.zeros(2, 4)).shape
        torch.Size([2, 5])
    """
    require_features(module)
    present = module.head
    for name, part in module.named_modules():
        if part is present:
            parent, _, attribute = name.rpartition(".")
            setattr(module.get_submodule(parent), attribute, head)
            return
    raise InputError(f"the head of the {type(module).__name__} is no part of it that could be replaced")


def input_kind(input_shape: Sequence[int]) -> InputKind:
    """What inputs of this shape are, where nobody has said that they are texts.

    Args:
        input_shape: Shape of one input, without the batch axis.

    Returns:
        Images for three axes, rows for one.

    Raises:
        InputError: For any other number of axes.

    Example:
        >>> input_kind((1, 28, 28))
        <InputKind.IMAGES: 'images'>
    """
    if len(input_shape) not in _GUESSED:
        raise InputError(
            f"an input must be an image (channels, height, width) or a row (features,), "
            f"got the shape {tuple(input_shape)}"
        )
    return _GUESSED[len(input_shape)]


def has_axes_of(kind: InputKind, input_shape: Sequence[int]) -> bool:
    """Whether inputs of this shape can be of this kind."""
    return len(input_shape) == _NUM_AXES[kind]
