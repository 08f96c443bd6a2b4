"""Simple augmentation of a batch of images: shift and flip, drawn apart from being applied.

Processes that share a batch draw the same moves for all of it, and each applies those of its own images.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad


class Moves(NamedTuple):
    """For each image (N,): pixels down and right, from -shift to shift, and whether it is mirrored."""

    down: Tensor
    right: Tensor
    mirrored: Tensor

    def take(self, index: Tensor) -> Moves:
        return Moves(self.down[index], self.right[index], self.mirrored[index])


def draw_moves(count: int, shift: int, flip: bool, generator: torch.Generator) -> Moves:
    """Moves for so many images; with `flip`, half of them are mirrored."""
    down, right = torch.randint(-shift, shift + 1, (2, count), generator=generator)
    mirrored_share = 0.5 if flip else 0.0
    # Drawn even where nothing is mirrored, so that flip changes no other draw.
    mirrored = torch.rand(count, generator=generator) < mirrored_share
    return Moves(down, right, mirrored)


def apply_moves(images: Tensor, moves: Moves) -> Tensor:
    """Images (N, C, H, W) moved with an empty border, then mirrored."""
    count, _, height, width = images.shape
    border = 0
    if count:
        border = int(torch.cat([moves.down, moves.right]).abs().max())
    if border:
        rows = (border - moves.down).view(-1, 1) + torch.arange(height)  # (N, H) of the padded image
        columns = (border - moves.right).view(-1, 1) + torch.arange(width)  # (N, W)
        padded = pad(images, (border,) * 4)
        sample = torch.arange(count).view(-1, 1, 1)
        images = padded.movedim(1, -1)[sample, rows.unsqueeze(2), columns.unsqueeze(1)].movedim(-1, 1)
    if bool(moves.mirrored.any()):
        images = torch.where(moves.mirrored.view(-1, 1, 1, 1), images.flip(3), images)
    return images
