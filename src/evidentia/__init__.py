"""Neural classifiers that know when they do not know.

The names below are the public ones. They are loaded when first used, so that the command line can
answer without waiting for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from evidentia import data
    from evidentia.core import Opinion, fuse
    from evidentia.errors import (
        DataError,
        EvidentiaError,
        EvidentiaWarning,
        FetchError,
        InputError,
        MissingExtraError,
    )
    from evidentia.losses import EvidentialLoss, functional

# Public name -> the module that defines it; a module stands for itself.
_HOMES = {
    "DataError": "evidentia.errors",
    "EvidentiaError": "evidentia.errors",
    "EvidentiaWarning": "evidentia.errors",
    "EvidentialLoss": "evidentia.losses",
    "FetchError": "evidentia.errors",
    "InputError": "evidentia.errors",
    "MissingExtraError": "evidentia.errors",
    "Opinion": "evidentia.core",
    "data": "evidentia.data",
    "functional": "evidentia.losses.functional",
    "fuse": "evidentia.core",
}

__all__ = [
    "DataError",
    "EvidentiaError",
    "EvidentiaWarning",
    "EvidentialLoss",
    "FetchError",
    "InputError",
    "MissingExtraError",
    "Opinion",
    "__version__",
    "data",
    "functional",
    "fuse",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'evidentia' has no attribute {name!r}")
    home = import_module(_HOMES[name])
    value = home if home.__name__.endswith(f".{name}") else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
