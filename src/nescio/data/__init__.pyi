from ._contact import contact_sheet
from ._loading import load
from ._schema import TableSchema
from ._stored import StoredArray
from ._values import Picture, Row, Text
from .dataset import Dataset, LabelledData, Table, Texts
from .preprocess import ImagePreprocess, Preprocess, RowPreprocess, TextPreprocess
from .sources import (
    Input,
    Labels,
    MemorySource,
    Place,
    Source,
    TextSource,
    from_torch,
    open_source,
    open_sources,
    register_source,
)
from .splits import split

__all__ = [
    "Dataset",
    "ImagePreprocess",
    "Input",
    "LabelledData",
    "Labels",
    "MemorySource",
    "Picture",
    "Place",
    "Preprocess",
    "Row",
    "RowPreprocess",
    "Source",
    "StoredArray",
    "Table",
    "TableSchema",
    "Text",
    "TextPreprocess",
    "TextSource",
    "Texts",
    "contact_sheet",
    "from_torch",
    "load",
    "open_source",
    "open_sources",
    "register_source",
    "split",
]
