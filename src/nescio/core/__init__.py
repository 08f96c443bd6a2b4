"""Pure tensor maths of opinions; torch only."""

from nescio.core.fusion import fuse
from nescio.core.opinion import Opinion

__all__ = ["Opinion", "fuse"]
