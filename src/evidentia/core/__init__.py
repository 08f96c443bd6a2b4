"""Pure tensor maths of opinions; torch only."""

from evidentia.core.fusion import fuse
from evidentia.core.opinion import Opinion

__all__ = ["Opinion", "fuse"]
