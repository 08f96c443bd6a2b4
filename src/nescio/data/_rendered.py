"""Images rendered from the fonts that matplotlib carries: letters A-J and a many-class set.

A character is rendered once per font and kept as a field of signed distances to its outline.
Sampling that field under a random pose gives sharp edges at any size, and a shift of its zero
level makes the strokes bolder or thinner, so whole batches are rendered without the font engine.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import grid_sample

from nescio._checks import require_whole
from nescio.errors import MissingExtraError

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_FRAME = 28  # side of a finished image
_SIDE, _CORE = 64, 48  # side of a distance field, and of the character inside it
_UNIT = 2 / (_SIDE - 1)  # one field pixel, where the field spans -1..1
_REACH = 7  # distances are exact up to this many field pixels
_BATCH = 1000  # images rendered at once: bounds the memory
_ALIKE = 0.8  # overlap beyond which two characters count as one shape

_GLYPH_FONTS = ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSansMono")
_PLAIN_FONTS = (
    *_GLYPH_FONTS,
    *("DejaVuSansMono-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique", "DejaVuSansMono-Oblique"),
    *("DejaVuSerif-Italic", "STIXGeneralBol", "STIXGeneralItalic"),
    *("cmb10", "cmmi10", "cmr10", "cmss10", "cmsy10", "cmti10", "cmtt10"),
)
# Where A is in one font: upright, script, bold script, Fraktur, double-struck, sans, mono, circled.
_STARTS = (0x41, 0x1D49C, 0x1D4D0, 0x1D56C, 0x1D538, 0x1D5A0, 0x1D670, 0x24B6)
# Letters that Unicode had before it got these alphabets are not in their row.
_ELSEWHERE = {0x1D49D: 0x212C, 0x1D4A0: 0x2130, 0x1D4A1: 0x2131, 0x1D4A3: 0x210B, 0x1D4A4: 0x2110}
_ELSEWHERE |= {0x1D53A: 0x2102, 0x1D53F: 0x210D}
_FACES = [(font, 0x41) for font in _PLAIN_FONTS] + [("STIXGeneral", start) for start in _STARTS]
# First and last code points in the order in which classes are taken; what comes twice is dropped.
_RANGES = (
    *((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A), (0x391, 0x3C9), (0x410, 0x44F), (0x531, 0x556)),
    *((0x561, 0x587), (0x10D0, 0x10FC), (0x5D0, 0x5EA), (0x621, 0x64A), (0x21, 0xBF)),
    *((0x2190, 0x22FF), (0x25A0, 0x27BE), (0x2D30, 0x2D67), (0x402, 0x52F), (0x180, 0x2AF)),
    *((0x1401, 0x1676), (0xE81, 0xEAE), (0x7CA, 0x7EA), (0xA4D0, 0xA4F7), (0x20A0, 0x218B)),
    *((0x2300, 0x23FF), (0x27C0, 0x27FF), (0x2900, 0x2B54), (0xC0, 0x17F)),
)


def letters(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Letters A-J in many typefaces: uint8 images (N, 1, 28, 28), int64 labels 0..9 (N,)."""
    require_whole("count", count, least=1)
    require_whole("seed", seed, least=0)
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(count, dtype=np.int64) % 10)
    pick = rng.integers(len(_FACES), size=count) * 10 + labels
    return _draw(_letter_fields(), pick, _wild, rng), torch.from_numpy(labels)


def glyphs(num_classes: int, per_class: int, seed: int) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """Many-class set: uint8 images (N, 1, 28, 28), int64 labels (N,), the K characters.

    The characters for K are the first K of those for any larger K.
    """
    require_whole("num_classes", num_classes, least=2, most=max_glyphs())
    require_whole("per_class", per_class, least=1)
    require_whole("seed", seed, least=0)
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(num_classes, dtype=np.int64), per_class))
    fields, start = _glyph_fields(num_classes)
    pick = start[labels] + rng.integers(np.diff(start)[labels])
    return _draw(fields, pick, _mild, rng), torch.from_numpy(labels), _characters()[:num_classes]


def max_glyphs() -> int:
    """The number of characters told apart, the largest num_classes of glyphs()."""
    return len(_characters())


class _Poses(NamedTuple):
    """How N images are drawn; (N, 1, 1) unless said otherwise."""

    matrix: Floats  # (2, 2, N, 1, 1), field to image, up to scale; determinant 1
    fill: Floats  # (2, N, 1, 1), part of the frame covered in x and y
    shift: Floats  # (2, N, 1, 1), in half frames
    warp: Floats  # (4, N, 1, 1): amplitude, frequency, two phases
    bold: Floats  # field pixels added to every edge
    sharp: Floats  # grey levels per field pixel, as a part of 1
    outline: Floats  # half the width of the outline drawn, 0 for a solid character
    invert: Floats  # 1 for a dark character in a light box
    noise: Floats  # standard deviation, as a part of 1
    stretch: bool  # fill the frame in x and y apart, else keep proportions


def _wild(rng: np.random.Generator, n: int) -> _Poses:
    """Poses for letters: any weight and slant, some odd ones."""
    odd = rng.random(n)  # disjoint parts of its range: outlined, inverted, cropped, blurred
    inverted, cropped = (odd > 0.05) & (odd < 0.09), (odd > 0.09) & (odd < 0.13)
    size = np.where(cropped, 1.25, np.where(inverted, 0.75, 1)) + rng.normal(0, 0.015, n)
    slant = np.where(rng.random(n) < 0.3, rng.uniform(0, 0.4, n), rng.normal(0, 0.05, n))
    wave = rng.normal(0, np.where(rng.random(n) < 0.25, 0.08, 0.012))
    return _Poses(
        matrix=_matrix(rng.normal(0, 0.05, n), slant),
        fill=_each(size + rng.normal(0, 0.01, (2, n))),
        shift=_each(rng.normal(0, np.where(cropped, 0.15, 0.01), (2, n))),
        warp=_each([wave, rng.uniform(1, 5, n), *rng.uniform(0, 6.3, (2, n))]),
        bold=_each(rng.triangular(-1.2, -0.2, 3.8, n)),
        sharp=_each(np.where((odd > 0.13) & (odd < 0.16), 0.15, rng.uniform(0.45, 0.8, n))),
        outline=_each(np.where(odd < 0.05, rng.uniform(0.8, 1.6, n), 0)),
        invert=_each(inverted),
        noise=_each(np.where(rng.random(n) < 0.2, rng.uniform(0, 0.06, n), 0)),
        stretch=True,
    )


def _mild(rng: np.random.Generator, n: int) -> _Poses:
    """Poses for glyphs: upright within 12 degrees, solid, wholly in the frame."""
    zero = np.zeros(n)
    return _Poses(
        matrix=_matrix(rng.uniform(-0.2, 0.2, n), rng.uniform(-0.12, 0.12, n)),
        fill=_each(rng.uniform(0.74, 0.88, n) * rng.uniform(0.93, 1.05, (2, n))),
        shift=_each(rng.uniform(-0.06, 0.06, (2, n))),
        warp=_each([zero] * 4),
        bold=_each(rng.uniform(-0.3, 0.9, n)),
        sharp=_each(rng.uniform(0.45, 0.7, n)),
        outline=_each(zero),
        invert=_each(zero),
        noise=_each(rng.uniform(0, 0.04, n)),
        stretch=False,
    )


def _each(values: npt.ArrayLike) -> Floats:
    """(..., N) to (..., N, 1, 1), to combine with N images."""
    return np.asarray(values, np.float32)[..., None, None]


def _matrix(angle: npt.NDArray[np.float64], slant: npt.NDArray[np.float64]) -> Floats:
    """Turn after slant, (2, 2, N, 1, 1)."""
    cos, sin = np.cos(angle), np.sin(angle)
    return _each([[cos, -sin - cos * slant], [sin, cos - sin * slant]])


class _Fields(NamedTuple):
    distance: Tensor  # (M, 1, side, side), field pixels, positive inside the character
    edges: Floats  # (2, M, 2, side), x and y of the first and last inked point of every row


def _draw(
    fields: _Fields,
    pick: Ints,
    maker: Callable[[np.random.Generator, int], _Poses],
    rng: np.random.Generator,
) -> Tensor:
    """One image for every picked field: uint8 (N, 1, 28, 28)."""
    images = torch.empty(len(pick), 1, _FRAME, _FRAME, dtype=torch.uint8)
    for start in range(0, len(pick), _BATCH):
        part = pick[start : start + _BATCH]
        poses = maker(rng, len(part))
        grid = torch.from_numpy(_grid(fields.edges[:, part], poses))
        # Every pixel is computed on its own, so the thread count cannot change the result.
        source = fields.distance[torch.from_numpy(part)]
        sampled = grid_sample(source, grid, padding_mode="border", align_corners=True)
        grey = _ink(sampled[:, 0].numpy(), poses)
        grey = grey + poses.noise * rng.standard_normal(grey.shape, np.float32)
        images[start : start + _BATCH, 0] = torch.from_numpy(grey.clip(0, 1) * 255).round()
    return images


def _ink(distance: Floats, poses: _Poses) -> Floats:
    """Grey levels 0..1 of signed distances, both (N, 28, 28)."""
    distance = distance + poses.bold
    distance = np.where(poses.outline > 0, poses.outline - np.abs(distance), distance)
    light: Floats = (distance * poses.sharp + np.float32(0.5)).clip(0, 1)
    return poses.invert + (1 - 2 * poses.invert) * light


def _grid(edges: Floats, poses: _Poses) -> Floats:
    """Field coordinates for every image pixel, (N, 28, 28, 2)."""
    (a, b), (c, d) = poses.matrix
    moved = np.stack([a * edges[0] + b * edges[1], c * edges[0] + d * edges[1]])
    low, high = moved.min((2, 3), keepdims=True), moved.max((2, 3), keepdims=True)
    half = (high - low) / 2 + (poses.bold + poses.outline) * np.float32(_UNIT)
    if not poses.stretch:
        half = np.broadcast_to(half.max(0), half.shape)
    middle = (low + high) / 2
    across, down = _axes(poses)
    x = across * half[0] + middle[0]
    y = down * half[1] + middle[1]
    return np.stack([d * x - b * y, a * y - c * x], axis=-1)


def _axes(poses: _Poses) -> tuple[Floats, Floats]:
    """Frame coordinates x and y of every pixel, -1..1 where the character is, (N, 28, 28)."""
    line = np.asarray((2 * np.arange(_FRAME) + 1) / _FRAME - 1, np.float32)
    across = (line[None, :] - poses.shift[0]) / poses.fill[0]
    down = (line[:, None] - poses.shift[1]) / poses.fill[1]
    size, frequency, *phases = poses.warp
    x = across + size * np.sin(frequency * down + phases[0])
    return x, down + size * np.sin(frequency * across + phases[1])


@lru_cache(maxsize=1)
def _letter_fields() -> _Fields:
    shapes = []
    for font, start in _FACES:
        for code in range(start, start + 10):
            char = chr(_ELSEWHERE.get(code, code))
            shapes.append(_packed(font, char, True))
    return _fields(shapes)


@lru_cache(maxsize=2)
def _glyph_fields(num_classes: int) -> tuple[_Fields, Ints]:
    """Fields of the first characters in all their fonts, and where each character starts."""
    shapes: list[bytes] = []
    starts = [0]
    for char in _characters()[:num_classes]:
        shapes += _in_fonts(char)
        starts.append(len(shapes))
    return _fields(shapes), np.array(starts, dtype=np.int64)


def _fields(shapes: Sequence[bytes]) -> _Fields:
    inside = _unpacked(shapes)
    # A few at a time stay in the processor's cache. Half a pixel moves the zero to the outline.
    distances = []
    for first in range(0, len(inside), 16):
        part = inside[first : first + 16]
        distances.append(_distance(~part) - _distance(part))
    distance = np.concatenate(distances)
    distance += np.where(inside, np.float32(-0.5), np.float32(0.5))
    return _Fields(torch.from_numpy(distance)[:, None], _edges(inside))


def _distance(marked: Bools) -> Floats:
    """Distance to the nearest marked pixel, at most the reach, (M, side, side)."""
    squares = np.where(marked, 0, _REACH**2).astype(np.int16)
    for _ in range(2):  # the nearest within each row, then within each column of the result
        padded = np.pad(squares, ((0, 0), (0, 0), (_REACH, _REACH)), constant_values=_REACH**2)
        for step in range(-_REACH, _REACH + 1):
            moved = padded[:, :, _REACH + step : _REACH + step + _SIDE]
            np.minimum(squares, moved + np.int16(step**2), out=squares)
        squares = np.ascontiguousarray(squares.transpose(0, 2, 1))
    return np.sqrt(squares, dtype=np.float32)


def _edges(inside: Bools) -> Floats:
    """First and last inked point of every row, -1..1, (2, M, 2, side)."""
    x = np.stack([inside.argmax(2), _SIDE - 1 - inside[:, :, ::-1].argmax(2)], axis=1)
    points = np.stack([x, np.broadcast_to(np.arange(_SIDE), x.shape)])
    # A row without ink counts as the middle of the field, which lies between the others.
    inked = np.any(inside, axis=2, keepdims=True).transpose(0, 2, 1)
    return np.where(inked, points * _UNIT - 1, 0).astype(np.float32)


@lru_cache(maxsize=1)
def _characters() -> tuple[str, ...]:
    """All characters told apart in every font that has them, in the order of the ranges."""
    candidates, used = _candidates(), 0
    kept: list[str] = []
    seen = np.zeros((len(candidates) * len(_GLYPH_FONTS), (_CORE // 4) ** 2), np.float32)
    squares = np.zeros(len(seen), np.float32)
    for char in candidates:
        shapes = _coarse(_in_fonts(char))
        own = np.square(shapes).sum(1)
        # The overlap is common / (own + other - common): 1 for equal shapes, 0 for disjoint ones.
        limit = (own[:, None] + squares[:used]) * (_ALIKE / (1 + _ALIKE))
        if own.all() and (shapes @ seen[:used].T <= limit).all():
            kept.append(char)
            end = used + len(own)
            seen[used:end], squares[used:end], used = shapes, own, end
    return tuple(kept)


def _candidates() -> list[str]:
    # The other kinds, marks, modifiers, spaces and controls, have no shape of their own.
    kinds = ("Lu", "Ll", "Lo", "N", "P", "Sm", "Sc", "So")
    in_font = _codes(_GLYPH_FONTS[0])
    chars = []
    for first, last in _RANGES:
        for code in range(first, last + 1):
            if code in in_font and unicodedata.category(chr(code)).startswith(kinds):
                chars.append(chr(code))
    return chars


def _coarse(shapes: Sequence[bytes]) -> Floats:
    """Ink counts of 4 x 4 core pixels, (F, 144): whole numbers, so that products are exact."""
    margin, cells = (_SIDE - _CORE) // 2, _CORE // 4
    core = _unpacked(shapes)[:, margin:-margin, margin:-margin]
    counts: Floats = core.reshape(-1, cells, 4, cells, 4).sum((2, 4), dtype=np.float32)
    return counts.reshape(-1, cells**2)


def _in_fonts(char: str) -> list[bytes]:
    """The shape of a character in every font for glyphs that has it."""
    shapes = []
    for font in _GLYPH_FONTS:
        if ord(char) in _codes(font):
            shapes.append(_packed(font, char, False))
    return shapes


def _unpacked(shapes: Sequence[bytes]) -> Bools:
    bits = np.unpackbits(np.frombuffer(b"".join(shapes), np.uint8))
    return bits.reshape(-1, _SIDE, _SIDE).view(np.bool_)


@cache
def _packed(font: str, char: str, stretch: bool) -> bytes:
    """The character, cropped and scaled to the core of a field, as packed bits."""
    from PIL import ImageDraw

    canvas, field = Image.new("L", (192, 192)), Image.new("L", (_SIDE, _SIDE))
    ImageDraw.Draw(canvas).text((96, 96), char, fill=255, font=_font(font), anchor="mm")
    if box := canvas.getbbox():
        width = box[2] - box[0]
        height = box[3] - box[1]
        wide = tall = _CORE
        if not stretch:
            longer = max(width, height)
            wide = max(1, round(_CORE * width / longer))
            tall = max(1, round(_CORE * height / longer))
        scaled = canvas.resize((wide, tall), Image.Resampling.BILINEAR, box)
        field.paste(scaled, ((_SIDE - wide) // 2, (_SIDE - tall) // 2))
    return field.convert("1", dither=Image.Dither.NONE).tobytes()


@cache
def _font(name: str) -> FreeTypeFont:
    from PIL import ImageFont

    return ImageFont.truetype(_font_file(name), 64, layout_engine=ImageFont.Layout.BASIC)


@cache
def _codes(name: str) -> frozenset[int]:
    """The code points a font has a shape for."""
    path = _font_file(name)
    from matplotlib.ft2font import FT2Font

    return frozenset(FT2Font(path).get_charmap())


def _font_file(name: str) -> str:
    try:
        from matplotlib import get_data_path
    except ImportError as error:
        raise MissingExtraError("demo", "matplotlib") from error
    return str(Path(get_data_path(), "fonts", "ttf", f"{name}.ttf"))
