from ._contact import contact_sheet
from ._loading import load
from ._user_data import from_csv, from_folder, from_npz, from_path
from .dataset import Dataset, Table

__all__ = ["Dataset", "Table", "contact_sheet", "from_csv", "from_folder", "from_npz", "from_path", "load"]
