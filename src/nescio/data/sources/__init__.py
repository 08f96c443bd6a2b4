"""Sources: the one way in. What they read is brought to a network by a `Preprocess`.

A new kind of source is a class in a file of its own; `register_source`, or an entry point of the group
`nescio.sources`, makes train, evaluate, predict and the service know it.
"""

from nescio.data.sources._base import Input, Labels, Place, Source
from nescio.data.sources._memory import MemorySource
from nescio.data.sources._opening import SOURCES, open_source, open_sources, register_source
from nescio.data.sources._texts import TextSource
from nescio.data.sources._torch import from_torch

__all__ = [
    "SOURCES",
    "Input",
    "Labels",
    "MemorySource",
    "Place",
    "Source",
    "TextSource",
    "from_torch",
    "open_source",
    "open_sources",
    "register_source",
]
