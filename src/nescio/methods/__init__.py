"""The methods, by the names that users give them. A new one is a file and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nescio.errors import InputError
from nescio.methods.base import Batch, Method, method_to_dict
from nescio.methods.baselines.dropout import Dropout
from nescio.methods.baselines.ensemble import Ensemble
from nescio.methods.baselines.gaussian import FFGU, FFLU
from nescio.methods.baselines.mnfg import MNFG
from nescio.methods.baselines.softmax import Softmax
from nescio.methods.evidential.edl import EDL

METHODS: dict[str, type[Any]] = {
    method.name: method for method in (Softmax, Dropout, Ensemble, FFGU, FFLU, MNFG, EDL)
}


# Names and settings as files of format 1 have them, and as the paper calls its first baseline.
FORMER_NAMES = {"l2": "softmax"}
FORMER_SETTINGS = {"ensemble": {"size": "num_members"}}


def make_method(name: str, **settings: Any) -> Method:
    """The method of this name, with these settings."""
    name = FORMER_NAMES.get(name, name)
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
    name = str(settings.pop("name", None))
    former = FORMER_SETTINGS.get(name, {})
    return make_method(name, **{former.get(key, key): value for key, value in settings.items()})


__all__ = [
    "EDL",
    "FFGU",
    "FFLU",
    "METHODS",
    "MNFG",
    "Batch",
    "Dropout",
    "Ensemble",
    "Method",
    "Softmax",
    "make_method",
    "method_from_dict",
    "method_to_dict",
]
