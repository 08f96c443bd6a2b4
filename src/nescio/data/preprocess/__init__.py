"""Preprocess: from what a source reads to what a network takes. It is stored in the model file.

There are two steps. `prepare` brings one value (a picture, a row of a table, a text, an array) to a tensor of
the shape that the model was trained on. Called on a batch of such tensors, a Preprocess scales it: numbers of
rows get zero mean and unit spread a column; images get the range from 0 to 1 and keep their zero, so that
where nothing is in the picture the network is fed nothing, and finds evidence only in what is there; the
tokens of texts stay as they are.
"""

from nescio.data._pictures import RESIZE_MODES
from nescio.data.preprocess._base import Preprocess, input_range_of
from nescio.data.preprocess._images import BYTES, WHITE, ImagePreprocess
from nescio.data.preprocess._rows import RowPreprocess
from nescio.data.preprocess._texts import TextPreprocess

__all__ = [
    "BYTES",
    "RESIZE_MODES",
    "WHITE",
    "ImagePreprocess",
    "Preprocess",
    "RowPreprocess",
    "TextPreprocess",
    "input_range_of",
]
