"""The encoders by name: ours, and those that other packages bring by entry points or by registering them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from nescio._kinds import InputKind
from nescio._registry import Registry, with_settings
from nescio.encoders import hf
from nescio.encoders._hf_files import HF_PREFIX
from nescio.encoders.base import Ability, EncoderSpec, has_axes_of, input_kind
from nescio.errors import InputError

SpecClass = TypeVar("SpecClass", bound=type[EncoderSpec])


def _check(name: str, spec: type[EncoderSpec]) -> None:
    """Refuse what is no encoder that a model file could hold."""
    if not isinstance(spec, type) or not issubclass(spec, EncoderSpec):
        raise InputError(f"the encoder {name!r} must be a subclass of EncoderSpec, got {spec!r}")
    if not dataclasses.is_dataclass(spec):
        raise InputError(f"{spec.__name__} must be a dataclass: put @dataclass(frozen=True) above it")
    if spec.kind != name:
        raise InputError(f"{spec.__name__} calls itself {spec.kind!r}, but is registered as {name!r}")
    fields = [field.name for field in dataclasses.fields(spec)]
    if "num_classes" not in fields:
        raise InputError(f"{spec.__name__} must have a field num_classes")
    if "input_shape" not in fields and not hasattr(spec, "input_shape"):
        raise InputError(f"{spec.__name__} must have input_shape, as a field or as a property")
    if Ability.DROPOUT in spec.abilities and "dropout" not in fields:
        raise InputError(f"{spec.__name__} declares Ability.DROPOUT, but has no field dropout")
    if Ability.PRETRAINED in spec.abilities and spec.pretrained_weights is EncoderSpec.pretrained_weights:
        raise InputError(
            f"{spec.__name__} declares Ability.PRETRAINED, but does not define pretrained_weights"
        )
    if Ability.FEATURES in spec.abilities and spec.num_features is EncoderSpec.num_features:
        raise InputError(f"{spec.__name__} declares Ability.FEATURES, but does not define num_features")


ENCODERS: Registry[type[EncoderSpec]] = Registry("encoder", "nescio.encoders", check=_check)
"""All encoders by name, those of other packages included; iterating gives the names."""

# What is trained where nobody has chosen an encoder.
DEFAULT_ENCODERS: dict[InputKind | None, str] = {
    InputKind.IMAGES: "lenet",
    InputKind.ROWS: "mlp",
    InputKind.TEXTS: "minilm",
}


def register_encoder(spec: SpecClass) -> SpecClass:
    """Make an encoder known by its name, `kind`: to model files, to the command line, to every method.

    Args:
        spec: A frozen dataclass that extends `EncoderSpec`.

    Returns:
        The same class, so that this can stand above it as a decorator.

    Raises:
        InputError: If it is no such class, or if another encoder has its name.

    Example:
        >>> from nescio.encoders import LeNetSpec
        >>> register_encoder(LeNetSpec) is LeNetSpec
        True
    """
    ENCODERS.register(spec.kind, spec)
    return spec


def make_encoder(
    name: str | None,
    input_shape: Sequence[int] | None,
    num_classes: int,
    /,
    *,
    kind: InputKind | None = None,
    **settings: Any,
) -> EncoderSpec:
    """The spec of an encoder for data of a shape.

    Args:
        name: One of the registered names; "hf:" and a folder or a name on the Hugging Face hub, for any model
            of transformers; None for the default of such inputs.
        input_shape: Shape of one input, without the batch axis; None for the encoder's own default shape.
        num_classes: K.
        kind: What the inputs are; None for images or rows, by the number of axes.
        settings: Fields of the spec that are not to have their defaults.

    Returns:
        The spec.

    Raises:
        InputError: If there is no such encoder, or it does not take such inputs, or a setting does not fit.

    Example:
        >>> make_encoder(None, (4,), 3, hidden=(16,))
        MLPSpec(in_features=4, num_classes=3, hidden=(16,), dropout=0.0)
    """
    if name is None:
        if kind is None and input_shape is not None:
            kind = input_kind(input_shape)
        if kind not in DEFAULT_ENCODERS:
            raise InputError("without a name of an encoder, kind or input_shape must say what the inputs are")
        name = DEFAULT_ENCODERS[kind]
    default_shape: tuple[int, ...] | None
    if isinstance(name, str) and name.startswith(HF_PREFIX):
        chosen, default_shape, given = hf.find(name.removeprefix(HF_PREFIX))
        settings = {**given, **settings}
    else:
        chosen = ENCODERS.get(name)
        default_shape = chosen.default_shape
    if input_shape is None:
        input_shape = _require_shape(chosen, default_shape)
    if kind is None:
        kind = chosen.inputs if has_axes_of(chosen.inputs, input_shape) else input_kind(input_shape)
    if chosen.inputs is not kind:
        fitting = ", ".join(encoders_for(kind)) or "none"
        raise InputError(
            f"the encoder {name} takes {chosen.inputs.value}, got {kind.value} of shape "
            f"{tuple(input_shape)}; for these there are: {fitting}"
        )
    return chosen.for_inputs(input_shape, num_classes, **settings)


def _require_shape(chosen: type[EncoderSpec], default_shape: tuple[int, ...] | None) -> tuple[int, ...]:
    if default_shape is None:
        raise InputError(
            f"the encoder {chosen.kind} has no default shape: input_shape must be that of the data, got None"
        )
    return default_shape


def encoders_for(kind: InputKind) -> list[str]:
    """The names of the encoders that take such inputs.

    Args:
        kind: What the inputs are.

    Returns:
        Names, ours first.

    Example:
        >>> encoders_for(InputKind.ROWS)
        ['mlp']
    """
    return [name for name in ENCODERS if ENCODERS.get(name).inputs is kind]


def spec_to_dict(spec: EncoderSpec) -> dict[str, Any]:
    """A spec as plain data, for a model file.

    Args:
        spec: Spec of a registered encoder.

    Returns:
        Its kind and its fields.

    Example:
        >>> from nescio.encoders import MLPSpec
        >>> spec_to_dict(MLPSpec(4, 3))
        {'kind': 'mlp', 'in_features': 4, 'num_classes': 3, 'hidden': (256, 256), 'dropout': 0.0}
    """
    fields: dict[str, Any] = dataclasses.asdict(spec)  # type: ignore[call-overload]
    for field in dataclasses.fields(spec):  # type: ignore[arg-type]
        if field.name in spec.later_fields and fields[field.name] == field.default:
            del fields[field.name]
    return {"kind": spec.kind, **fields}


def spec_from_dict(data: Mapping[str, Any]) -> EncoderSpec:
    """A spec back from plain data.

    Args:
        data: What `spec_to_dict` gave; fields may be left out.

    Returns:
        The spec.

    Raises:
        InputError: If there is no such encoder, or a field does not fit.

    Example:
        >>> spec_from_dict({"kind": "mlp", "in_features": 4, "num_classes": 3})
        MLPSpec(in_features=4, num_classes=3, hidden=(256, 256), dropout=0.0)
    """
    fields = dict(data)
    kind = fields.pop("kind", None)
    return with_settings(f"the encoder {kind}", ENCODERS.get(kind), fields)
