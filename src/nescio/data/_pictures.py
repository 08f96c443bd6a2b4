"""One picture of a user's, from a file or from bytes, as a tensor.

Torch is imported when a tensor is made: processes that only decode start without it.
"""

from __future__ import annotations

import contextlib
import io
import struct
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import ExifTags, Image, ImageOps

from nescio.errors import DataError, InputError

if TYPE_CHECKING:
    from torch import Tensor

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
FORMATS = ("PNG", "JPEG", "BMP", "WEBP")
MAX_PIXELS = 64_000_000
# What Pillow's decoders raise on files that are cut or damaged.
DAMAGE = (
    *(ArithmeticError, EOFError, LookupError, OSError, RuntimeError, SyntaxError, TypeError, ValueError),
    *(struct.error, zlib.error, MemoryError),
)
_STARTS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")  # of a PNG and of a JPEG
_LONGEST_START = 12  # RIFF, a length of four bytes, and WEBP
GREY_MODES = ("1", "L", "LA", "I", "I;16", "F")
RESIZE_MODES = ("stretch", "crop", "pad")
# A large JPEG is decoded at a half, a quarter or an eighth of its size, this much larger than asked or more.
DRAFT_GAP = 3
STRIP_PIXELS = 4_000_000  # that are brought to their mode at a time

Pixels = np.ndarray | str  # uint8 (C, H, W), or what is wrong with the picture


class TooManyPixelsError(DataError):
    """A picture that is not decoded because of its size."""


def open_picture(source: Path | bytes, name: str | None = None) -> Image.Image:
    """The picture, its header read and checked, its pixels not yet decoded. name: for messages."""
    name = name or _name(source)
    try:
        with _without_warnings():
            file = io.BytesIO(source) if isinstance(source, bytes) else source
            picture = Image.open(file, formats=FORMATS)
    except DAMAGE as error:
        if _begins_like_a_picture(source):
            raise DataError(f"{name} is damaged: its header is cut off or can't be read") from error
        raise DataError(f"{name} is not a PNG, JPEG, BMP or WebP picture") from error
    except Image.DecompressionBombError as error:
        raise TooManyPixelsError(f"{name} has too many pixels; at most {MAX_PIXELS:,}") from error
    width, height = picture.size
    if width * height > MAX_PIXELS:
        picture.close()
        raise TooManyPixelsError(f"{name} is {width} x {height} pixels; at most {MAX_PIXELS:,} in all")
    return picture


def _begins_like_a_picture(source: Path | bytes) -> bool:
    """Whether the first bytes are those of a PNG, a JPEG or a WebP, however little comes behind them.

    Not of a BMP: its two letters, BM, may begin any text.
    """
    if isinstance(source, bytes):
        start = source[:_LONGEST_START]
    else:
        try:
            with source.open("rb") as file:
                start = file.read(_LONGEST_START)
        except OSError:  # it is gone, or must not be read
            return False
    is_webp = start.startswith(b"RIFF") and start[8:12] == b"WEBP"
    return is_webp or start.startswith(_STARTS)


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Pillow warns of large pictures at a limit of its own, and of odd notes: what counts is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


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
    with _without_warnings(), contextlib.suppress(*DAMAGE):
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
    import torch

    return torch.from_numpy(decode_picture(source, channels, size, name, resize))


def decode_picture(
    source: Path | bytes,
    channels: int,
    size: tuple[int, int],
    name: str | None = None,
    resize: str = "stretch",
) -> np.ndarray:
    """As `read_picture`, as an array."""
    if resize not in RESIZE_MODES:
        raise InputError(f"resize must be one of {', '.join(RESIZE_MODES)}, got {resize!r}")
    with open_picture(source, name) as picture, _without_warnings():
        try:
            if resize != "stretch":  # which keeps its bits: models were trained on them
                side = DRAFT_GAP * max(size)
                picture.draft(None, (side, side))
            picture.load()
            plain = _flatten(_upright(picture), "L" if channels == 1 else "RGB")
        except DAMAGE as error:
            raise DataError(f"{name or _name(source)} is damaged: {error}") from error
    pixels = np.array(_resized(plain, size, resize))  # (H, W) or (H, W, 3)
    if channels == 1:
        return pixels[None]
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def decode_some(
    files: Sequence[Path], channels: int, size: tuple[int, int], resize: str = "stretch"
) -> list[Pixels]:
    """Several pictures; in the place of one that can't be read, the reason."""
    decoded: list[Pixels] = []
    for file in files:
        try:
            decoded.append(decode_picture(file, channels, size, file.name, resize))
        except DataError as error:
            decoded.append(str(error))
    return decoded


def _resized(picture: Image.Image, size: tuple[int, int], resize: str) -> Image.Image:
    height, width = size
    if picture.size == (width, height):
        return picture
    if resize == "crop":
        box = _middle(picture.size, (width, height))
        return picture.resize((width, height), Image.Resampling.BILINEAR, box, reducing_gap=3)
    if resize == "pad":
        ratio = min(width / picture.width, height / picture.height)
        fitted = (max(1, round(picture.width * ratio)), max(1, round(picture.height * ratio)))
        inner = picture.resize(fitted, Image.Resampling.BILINEAR, reducing_gap=3)
        padded = Image.new(picture.mode, (width, height))  # black
        padded.paste(inner, ((width - inner.width) // 2, (height - inner.height) // 2))
        return padded
    return picture.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=3)


def _middle(size: tuple[int, int], wanted: tuple[int, int]) -> tuple[float, float, float, float]:
    """The largest box of the wanted proportions in the middle of a picture: left, top, right, bottom."""
    ratio = max(wanted[0] / size[0], wanted[1] / size[1])
    width = min(wanted[0] / ratio, size[0])
    height = min(wanted[1] / ratio, size[1])
    left = (size[0] - width) / 2
    top = (size[1] - height) / 2
    return left, top, min(left + width, size[0]), min(top + height, size[1])


def _upright(picture: Image.Image) -> Image.Image:
    try:
        if picture.getexif().get(ExifTags.Base.Orientation, 1) == 1:
            return picture  # not a copy of it, which may be large
        return ImageOps.exif_transpose(picture)
    except DAMAGE:  # the camera's notes are damaged, the pixels are not
        return picture


def _flatten(picture: Image.Image, mode: str) -> Image.Image:
    """Without transparency (over white, as viewers show it) and with eight bits a channel.

    Some rows at a time, as a few kilobytes may be a picture that takes a quarter of a gigabyte in each step.
    """
    is_plain = picture.mode in ("1", "L", "RGB") and "transparency" not in picture.info
    rows = max(1, STRIP_PIXELS // max(1, picture.width))
    if is_plain or picture.height <= rows:
        return _flatten_strip(picture, mode)
    flat = Image.new(mode, picture.size)
    for top in range(0, picture.height, rows):
        strip = picture.crop((0, top, picture.width, min(top + rows, picture.height)))
        flat.paste(_flatten_strip(strip, mode), (0, top))
    return flat


def _flatten_strip(picture: Image.Image, mode: str) -> Image.Image:
    if picture.mode in ("I;16", "I", "F"):
        # Sixteen bits: Pillow's own conversion would cut off everything above 255.
        values = np.asarray(picture, dtype=np.float32)
        picture = Image.fromarray((values / 257).clip(0, 255).astype(np.uint8))
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        opaque = picture.convert("RGBA")
        paper = Image.new("RGBA", opaque.size, "white")
        picture = Image.alpha_composite(paper, opaque)
    return picture.convert(mode)
