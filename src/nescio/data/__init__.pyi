from ._contact import contact_sheet
from ._loading import load
from ._stored import StoredArray
from ._values import Picture, Row
from .dataset import Dataset, Table
from .preprocess import Preprocess
from .sources import Input, Labels, MemorySource, Place, Source, open_source, open_sources, register_source
from .splits import split

__all__ = [
    "Dataset",
    "Input",
    "Labels",
    "MemorySource",
    "Picture",
    "Place",
    "Preprocess",
    "Row",
    "Source",
    "StoredArray",
    "Table",
    "contact_sheet",
    "load",
    "open_source",
    "open_sources",
    "register_source",
    "split",
]
