"""Data: one catalog, value objects for images and tables, and one function to load by name."""

from evidentia.data.contact import contact_sheet
from evidentia.data.dataset import Dataset, Table
from evidentia.data.loading import load
from evidentia.data.own import from_csv, from_folder, from_npz, from_path

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
