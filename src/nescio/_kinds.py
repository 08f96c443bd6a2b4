"""The kinds of data. The data say what an input is: ids of tokens and rows of numbers look alike."""

from __future__ import annotations

from enum import Enum


class InputKind(Enum):
    """What one input is, and the shape in which a network takes it, without the batch axis.

    IMAGES: an image (channels, height, width).
    ROWS: a row of numbers (features,).
    TEXTS: a text as ids of its tokens, whole numbers (length,), with one id, mostly 0, behind its end.

    Example:
        >>> from nescio.encoders import LeNetSpec
        >>> LeNetSpec.inputs
        <InputKind.IMAGES: 'images'>
    """

    IMAGES = "images"
    ROWS = "rows"
    TEXTS = "texts"
