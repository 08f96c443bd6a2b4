"""One picture of a user's, from a file or from bytes, as a tensor."""

from __future__ import annotations

import contextlib
import io
import struct
import warnings
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import ExifTags, Image, ImageOps
from torch import Tensor

from nescio.errors import DataError

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
FORMATS = ("PNG", "JPEG", "BMP", "WEBP")
MAX_PIXELS = 64_000_000
# What Pillow's decoders raise on files that are cut or damaged.
DAMAGE = (
    *(ArithmeticError, EOFError, LookupError, OSError, RuntimeError, SyntaxError, TypeError, ValueError),
    *(struct.error, zlib.error),
)
GREY_MODES = ("1", "L", "LA", "I", "I;16", "F")


class TooManyPixelsError(DataError):
    """A picture that is not decoded because of its size."""


def open_picture(source: Path | bytes, name: str | None = None) -> Image.Image:
    """The picture, its header read and checked, its pixels not yet decoded. name: for messages."""
    name = name or _name(source)
    try:
        with warnings.catch_warnings():
            # Pillow warns of large pictures at a limit of its own; ours decides.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            file = io.BytesIO(source) if isinstance(source, bytes) else source
            picture = Image.open(file, formats=FORMATS)
    except DAMAGE as error:
        raise DataError(f"{name} is not a PNG, JPEG, BMP or WebP picture") from error
    except Image.DecompressionBombError as error:
        raise TooManyPixelsError(f"{name} has too many pixels; at most {MAX_PIXELS:,}") from error
    width, height = picture.size
    if width * height > MAX_PIXELS:
        picture.close()
        raise TooManyPixelsError(f"{name} is {width} x {height} pixels; at most {MAX_PIXELS:,} in all")
    return picture


def _name(source: Path | bytes) -> str:
    return source.name if isinstance(source, Path) else "the picture"


@dataclass(frozen=True)
class Header:
    """What a picture says of itself: whether it has one channel, transparency aside, and its size.

    size: (height, width) once the orientation that the camera noted is applied.
    """

    grey: bool
    size: tuple[int, int]


def read_header(source: Path | bytes, name: str | None = None) -> Header:
    """The header alone: no pixel is decoded."""
    with open_picture(source, name) as picture:
        width, height = picture.size
        turned = _noted_orientation(picture) in (5, 6, 7, 8)
        return Header(picture.mode in GREY_MODES, (width, height) if turned else (height, width))


def _noted_orientation(picture: Image.Image) -> object:
    # Not getexif(): to find notes behind the pixels of a PNG, it decodes the pixels.
    exif = Image.Exif()
    with contextlib.suppress(*DAMAGE):
        exif.load(picture.info.get("exif", b""))
    return exif.get(ExifTags.Base.Orientation)


def read_picture(
    source: Path | bytes,
    channels: int,
    size: tuple[int, int],
    name: str | None = None,
    resize: str = "stretch",
) -> Tensor:
    """A picture as uint8 (channels, height, width), turned upright and brought to the size.

    resize: "stretch", "crop" (the middle, once the shorter side fits) or "pad" (with black, once the longer
    side fits).
    """
    with open_picture(source, name) as picture:
        try:
            picture.load()
            plain = _flatten(_upright(picture), "L" if channels == 1 else "RGB")
        except DAMAGE as error:
            raise DataError(f"{name or _name(source)} is damaged: {error}") from error
    plain = _resized(plain, size, resize)
    pixels = torch.from_numpy(np.array(plain))  # (H, W) or (H, W, 3)
    return pixels.unsqueeze(0) if channels == 1 else pixels.permute(2, 0, 1).contiguous()


def _resized(picture: Image.Image, size: tuple[int, int], resize: str) -> Image.Image:
    height, width = size
    if picture.size == (width, height):
        return picture
    if resize == "stretch":
        return picture.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=3)
    ratios = (width / picture.width, height / picture.height)
    ratio = max(ratios) if resize == "crop" else min(ratios)
    fitted = (max(1, round(picture.width * ratio)), max(1, round(picture.height * ratio)))
    picture = picture.resize(fitted, Image.Resampling.BILINEAR, reducing_gap=3)
    left = (picture.width - width) // 2
    top = (picture.height - height) // 2
    # What lies outside of the picture is black.
    return picture.crop((left, top, left + width, top + height))


def _upright(picture: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(picture)
    except DAMAGE:  # the camera's notes are damaged, the pixels are not
        return picture


def _flatten(picture: Image.Image, mode: str) -> Image.Image:
    """Without transparency (over white, as viewers show it) and with eight bits a channel."""
    if picture.mode in ("I;16", "I", "F"):
        # Sixteen bits: Pillow's own conversion would cut off everything above 255.
        values = np.asarray(picture, dtype=np.float32)
        picture = Image.fromarray((values / 257).clip(0, 255).astype(np.uint8))
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        opaque = picture.convert("RGBA")
        paper = Image.new("RGBA", opaque.size, "white")
        picture = Image.alpha_composite(paper, opaque)
    return picture.convert(mode)
