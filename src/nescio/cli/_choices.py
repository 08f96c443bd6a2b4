"""What `nescio train` means by --method, --set, --encoder and --device."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nescio.errors import InputError

if TYPE_CHECKING:
    from nescio.data import LabelledData
    from nescio.encoders import EncoderSpec
    from nescio.methods import Method


def method_of(name: str, settings: list[str]) -> Method:
    """The method of this name, with settings written as name=value."""
    from nescio.methods import METHODS, make_method

    chosen = METHODS.get(name)
    fields = dataclasses.fields(chosen)  # type: ignore[arg-type]
    defaults = {field.name: field.default for field in fields if field.init}
    given: dict[str, Any] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--set takes name=value, got {text!r}")
        if key not in defaults:
            raise InputError(f"--set: {chosen.name} has no setting {key!r}; it has {', '.join(defaults)}")
        if key in given:
            raise InputError(f"--set {key} is given twice")
        given[key] = _plain_value(key, value, isinstance(defaults[key], str))
    return make_method(name, **given)


def _plain_value(key: str, text: str, may_be_text: bool) -> Any:
    if text.lower() == "none":
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if may_be_text:
            return text
        raise InputError(f"--set {key} must be a number or none, got {text!r}") from error


def encoder_of(text: str | None) -> tuple[str | None, dict[str, Any]]:
    """The name of the encoder that --encoder means, None where it is left to the data, and fields of it."""
    if text is None or _is_name(text):
        return text, {}
    fields = _fields(text)
    kind = fields.pop("kind", None)
    if kind is not None and not isinstance(kind, str):
        raise InputError(f"--encoder: kind must be the name of an encoder, got {kind!r}")
    return kind, fields


def _is_name(text: str) -> bool:
    from nescio.encoders import ENCODERS

    return text in ENCODERS or text.startswith("hf:")


def network_of(text: str | None, data: LabelledData, method: Method) -> EncoderSpec:
    """The encoder that --encoder names: any that takes such inputs, or its fields as JSON or a JSON file.

    What is left out is as the data and the method need it.
    """
    from nescio.data import Texts
    from nescio.encoders import make_encoder

    kind, given = encoder_of(text)
    if isinstance(data, Texts):
        raise InputError(f"--encoder {kind}: {data.name} holds texts, which need an encoder for texts")
    input_shape = tuple(data.inputs.shape[1:])
    spec = make_encoder(kind, input_shape, len(data.classes), **given)
    # The method may change what the user has left open, and nothing else.
    return dataclasses.replace(method.default_encoder(spec), **given)  # type: ignore[type-var]


def _fields(text: str) -> dict[str, Any]:
    """From JSON, or a file of it."""
    from nescio.encoders import ENCODERS

    if not text.lstrip().startswith("{"):
        if not Path(text).is_file():
            known = ", ".join(name for name in ENCODERS if not name.startswith("hf-"))
            raise InputError(
                f"--encoder must be one of {known}, hf:FOLDER_OR_ID, JSON or a JSON file, got {text!r}"
            )
        text = Path(text).read_text(encoding="utf-8", errors="replace")
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"--encoder is no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise InputError(f"--encoder must hold the fields of a network, got {type(fields).__name__}")
    return fields
