"""What `nescio train` means by --method, --set, --network and --device."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nescio.errors import InputError

if TYPE_CHECKING:
    from nescio.data import Dataset, Table
    from nescio.encoders import LeNetSpec, MLPSpec
    from nescio.methods import Method


def method_of(name: str, settings: list[str]) -> Method:
    """The method of this name, with settings written as name=value."""
    from nescio.methods import FORMER_NAMES, METHODS, make_method

    name = FORMER_NAMES.get(name, name)
    if name not in METHODS:
        return make_method(name)  # which says what there is
    defaults = {field.name: field.default for field in dataclasses.fields(METHODS[name]) if field.init}
    given: dict[str, Any] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--set takes name=value, got {text!r}")
        if key not in defaults:
            raise InputError(f"--set: {name} has no setting {key!r}; it has {', '.join(defaults)}")
        if key in given:
            raise InputError(f"--set {key} is given twice")
        given[key] = value if isinstance(defaults[key], str) else _plain_value(key, value)
    return make_method(name, **given)


def _plain_value(key: str, text: str) -> Any:
    if text.lower() == "none":
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"--set {key} must be a number or none, got {text!r}") from error


def network_of(text: str | None, data: Dataset | Table, method: Method) -> LeNetSpec | MLPSpec:
    """A kind of network, or its fields as JSON in the text or in a file.

    What is left out is as the data and the method need it.
    """
    from nescio.encoders import spec_from_dict, spec_to_dict
    from nescio.encoders.specs import SPECS
    from nescio.inference.model import default_network

    usual = spec_to_dict(method.default_encoder(default_network(data)))
    given = {"kind": text} if text in (None, *SPECS) else _fields(str(text))
    kind = str(given.get("kind") or usual["kind"])
    if kind in SPECS and kind != usual["kind"]:
        raise InputError(f"network {kind} does not go with {data.name}; its inputs go with {usual['kind']}")
    return spec_from_dict({**usual, **given, "kind": kind})


def _fields(text: str) -> dict[str, Any]:
    """From JSON, or a file of it."""
    from nescio.encoders.specs import SPECS

    if not text.lstrip().startswith("{"):
        if not Path(text).is_file():
            raise InputError(f"--network must be {', '.join(SPECS)}, JSON or a JSON file, got {text!r}")
        text = Path(text).read_text(encoding="utf-8", errors="replace")
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"--network is no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise InputError(f"--network must hold the fields of a network, got {type(fields).__name__}")
    return fields
