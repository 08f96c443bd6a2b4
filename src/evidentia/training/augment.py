"""Simple augmentation of a batch of images: shift and flip."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad


def augment(images: Tensor, shift: int, flip: bool, generator: torch.Generator) -> Tensor:
    """Each image (N, C, H, W) moved by up to `shift` pixels with an empty border, and mirrored by chance."""
    count, _, height, width = images.shape
    if shift:
        down, right = torch.randint(2 * shift + 1, (2, count, 1), generator=generator)
        rows = down + torch.arange(height)  # (N, H) of the padded image
        columns = right + torch.arange(width)
        padded = pad(images, (shift,) * 4)
        sample = torch.arange(count).view(-1, 1, 1)
        images = padded.movedim(1, -1)[sample, rows.unsqueeze(2), columns.unsqueeze(1)].movedim(-1, 1)
    if flip:
        mirrored = torch.rand(count, generator=generator) < 0.5
        images = torch.where(mirrored.view(-1, 1, 1, 1), images.flip(3), images)
    return images
