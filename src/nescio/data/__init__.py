"""Data: one catalog, value objects for images and tables, and one function to load by name.

The names below are loaded when first used: the catalog can be looked at without waiting for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nescio.data.contact import contact_sheet
    from nescio.data.dataset import Dataset, Table
    from nescio.data.loading import load
    from nescio.data.own import from_csv, from_folder, from_npz, from_path

# Public name -> the module that defines it.
_HOMES = {
    "Dataset": "dataset",
    "Table": "dataset",
    "contact_sheet": "contact",
    "from_csv": "own",
    "from_folder": "own",
    "from_npz": "own",
    "from_path": "own",
    "load": "loading",
}

__all__ = [
    "Dataset",
    "Table",
    "contact_sheet",
    "from_csv",
    "from_folder",
    "from_npz",
    "from_path",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'nescio.data' has no attribute {name!r}")
    value = getattr(import_module(f"nescio.data.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
