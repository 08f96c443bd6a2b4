"""A contact sheet: a few samples of each class in one picture, to look at."""

from __future__ import annotations

import torch
from PIL import Image, ImageDraw, ImageFont

from evidentia.data.dataset import Dataset

MARGIN = 8
FONT_SIZE = 14


def contact_sheet(dataset: Dataset, columns: int = 16, rows: int = 25) -> Image.Image:
    """Samples of each class in a row behind its name; of many classes, `rows` spread over all."""
    shown = range(0, len(dataset.classes), -(-len(dataset.classes) // rows))
    height, width = dataset.images.shape[2:]
    scale = max(1, 48 // max(height, width))
    cell_h, cell_w = height * scale + 2, width * scale + 2
    names = [_printable(dataset.classes[index]) for index in shown]
    font = ImageFont.load_default(FONT_SIZE)
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


def _printable(name: str) -> str:
    # The small font that comes with Pillow knows little beyond ASCII.
    return name if name.isascii() else " ".join(f"U+{ord(letter):04X}" for letter in name)


def _enlarged(dataset: Dataset, position: int, scale: int) -> Image.Image:
    pixels = dataset.images[position].permute(1, 2, 0)  # (H, W, C)
    grown = pixels.repeat_interleave(scale, 0).repeat_interleave(scale, 1)
    return Image.fromarray(torch.squeeze(grown, 2).numpy())
