"""The methods, by the names that users give them. A new one is a file and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nescio.errors import InputError
from nescio.methods.dropout import Dropout
from nescio.methods.ensemble import Ensemble
from nescio.methods.evidential import EDL
from nescio.methods.flow import MNFG
from nescio.methods.gaussian import FFGU, FFLU
from nescio.methods.l2 import L2
from nescio.methods.protocol import Batch, Method, method_to_dict

METHODS: dict[str, type[Any]] = {
    method.name: method for method in (L2, Dropout, Ensemble, FFGU, FFLU, MNFG, EDL)
}


def make_method(name: str, **settings: Any) -> Method:
    """The method of this name, with these settings."""
    if name not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {name!r}")
    try:
        method: Method = METHODS[name](**settings)
    except TypeError as error:
        raise InputError(f"settings do not fit the method {name}: {error}") from error
    return method


def method_from_dict(data: Mapping[str, Any]) -> Method:
    """Back from plain data; what does not fit is refused."""
    settings = dict(data)
    return make_method(str(settings.pop("name", None)), **settings)


__all__ = [
    "EDL",
    "FFGU",
    "FFLU",
    "L2",
    "METHODS",
    "MNFG",
    "Batch",
    "Dropout",
    "Ensemble",
    "Method",
    "make_method",
    "method_from_dict",
    "method_to_dict",
]
