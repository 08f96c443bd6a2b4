"""A contact sheet: a few samples of each class in one picture, to look at."""

from __future__ import annotations

import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from nescio._checks import require_whole
from nescio.data.dataset import Dataset

MARGIN = 8
FONT_SIZE = 14
NO_LETTER = "\U0010ffff"  # no font has a shape for it: it is drawn as all letters are that a font lacks
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def contact_sheet(dataset: Dataset, columns: int = 16, rows: int = 25) -> Image.Image:
    """A few samples of each class in one picture, to look at.

    Args:
        dataset: Images with labels.
        columns: How many samples of a class.
        rows: How many classes at most; of more, so many that are spread over all.

    Returns:
        A picture with a row for each class, behind its name.

    Raises:
        InputError: If columns or rows is no whole number from 1 on.

    Example:
        >>> images = torch.zeros(4, 1, 28, 28, dtype=torch.uint8)
        >>> data = Dataset(images, torch.tensor([0, 1, 0, 1]), ("cat", "dog"), "four pictures")
        >>> contact_sheet(data, columns=2).size[1]
        68
    """
    require_whole("columns", columns, least=1)
    require_whole("rows", rows, least=1)
    shown = range(0, len(dataset.classes), -(-len(dataset.classes) // rows))
    height, width = dataset.images.shape[2:]
    scale = max(1, 48 // max(height, width))
    cell_h, cell_w = height * scale + 2, width * scale + 2
    font = ImageFont.load_default(FONT_SIZE)
    names = [_printable(dataset.classes[index], font) for index in shown]
    left = 2 * MARGIN + int(max(font.getlength(name) for name in names))
    sheet = Image.new("RGB", (left + columns * cell_w, len(names) * cell_h + MARGIN), "white")
    draw = ImageDraw.Draw(sheet)
    for row, (label, name) in enumerate(zip(shown, names, strict=True)):
        top = MARGIN // 2 + row * cell_h
        draw.text((MARGIN, top + cell_h // 2), name, fill="black", font=font, anchor="lm")
        positions = (dataset.labels == label).nonzero()[:columns, 0]
        for column, position in enumerate(positions.tolist()):
            sheet.paste(_enlarged(dataset, position, scale), (left + column * cell_w, top))
    return sheet


def _printable(name: str, font: Font) -> str:
    """The name as the small font that comes with Pillow can write it."""
    if len(name) == 1 and not name.isascii():
        return f"U+{ord(name):04X}"
    text = ""
    for letter in name:
        text += letter if _has(font, letter) else "?"
    return text


def _has(font: Font, letter: str) -> bool:
    if letter.isascii():
        return letter.isprintable()
    return _shape(font, letter) != _shape(font, NO_LETTER)


def _shape(font: Font, letter: str) -> tuple[tuple[int, int], bytes]:
    mask = font.getmask(letter)
    return mask.size, bytes(mask)


def as_picture(image: Tensor) -> Image.Image:
    """An image as a picture to look at.

    Args:
        image: (C, H, W); of three channels or more the first three are red, green and blue, of fewer the
            first is grey. uint8 from 0 to 255; other numbers from 0 to 1, or else from their least to their
            greatest.
    """
    image = image[: 3 if len(image) >= 3 else 1]
    if image.dtype != torch.uint8:
        image = image.float()
        least, greatest = image.aminmax()
        if least < 0 or greatest > 1:
            image = (image - least) / (greatest - least).clamp_min(torch.finfo(torch.float32).tiny)
        image = (255 * image).round().to(torch.uint8)
    pixels = image.permute(1, 2, 0).contiguous().numpy()
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def _enlarged(dataset: Dataset, position: int, scale: int) -> Image.Image:
    picture = as_picture(dataset.images[position])
    return picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST)
