from .contact import contact_sheet
from .dataset import Dataset, Table
from .loading import load
from .user_data import from_csv, from_folder, from_npz, from_path

__all__ = ["Dataset", "Table", "contact_sheet", "from_csv", "from_folder", "from_npz", "from_path", "load"]
