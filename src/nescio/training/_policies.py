"""Augmentation of photos by a policy: crops, colours, and what RandAugment does, on a whole batch at once.

What is drawn for each image is kept apart from being applied, as in `_augment`: processes that share a batch
draw the same for all of it. All that moves pixels is one affine map for each image, so that they are
resampled once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

NONE = "none"
LIGHT = "light"
STRONG = "strong"
AUGMENTATIONS = (NONE, LIGHT, STRONG)

_BYTES = 255.0
_BITS = 8
_LEAST_AREA = {LIGHT: 0.5, STRONG: 0.25}  # of a crop, as a share of the image
_LARGEST_ASPECT = 4 / 3  # of a crop, times that of the image
_JITTER = 0.4  # of brightness, contrast and saturation, in the strong policy
# The strong policy draws twice for each image from these, each with a strength of its own.
_DRAWS = 2
_OPERATIONS = (
    "nothing",
    "rotate",
    "shear across",
    "shear down",
    "move across",
    "move down",
    "brightness",
    "contrast",
    "saturation",
    "posterize",
    "solarize",
)
_LARGEST_ANGLE = math.radians(30)
_LARGEST_SHEAR = 0.3
_LARGEST_MOVE = 0.3  # in half sizes of the image
_FEWEST_BITS = 4
# The weights of red, green and blue in what is seen as brightness.
_GREY = (0.299, 0.587, 0.114)


class Changes(NamedTuple):
    """What is done to each of N images.

    affine: (N, 2, 3) from places in the new image to places in the old one, both from -1 to 1.
    brightness, contrast, saturation: (N,), factors.
    bits: (N,), of a channel that are kept, of 8; for bytes only.
    solarized_from: (N,), the part of the range from which on values are turned round; for bytes only.
    """

    affine: Tensor
    brightness: Tensor
    contrast: Tensor
    saturation: Tensor
    bits: Tensor
    solarized_from: Tensor

    def take(self, index: Tensor) -> Changes:
        return Changes(*(values[index] for values in self))


def draw_changes(count: int, policy: str, aspect: float, generator: torch.Generator) -> Changes:
    """Changes for so many images whose width is `aspect` times their height: "light" or "strong"."""
    affine = _draw_crops(count, _LEAST_AREA[policy], generator)
    ones = torch.ones(count)
    changes = Changes(affine, ones, ones, ones, torch.full((count,), _BITS), torch.full((count,), 2.0))
    if policy == LIGHT:
        return changes
    changes = changes._replace(
        brightness=_draw_factor(count, _JITTER, generator),
        contrast=_draw_factor(count, _JITTER, generator),
        saturation=_draw_factor(count, _JITTER, generator),
    )
    for _ in range(_DRAWS):
        changes = _draw_operation(changes, aspect, generator)
    return changes


def _draw_crops(count: int, least_area: float, generator: torch.Generator) -> Tensor:
    """A random part of each image at full size, half of them mirrored: (count, 2, 3)."""
    area = _uniform(count, least_area, 1.0, generator)
    log_aspect = math.log(_LARGEST_ASPECT)
    aspect = _uniform(count, -log_aspect, log_aspect, generator).exp()
    width = (area * aspect).sqrt().clamp_max(1.0)
    height = (area / aspect).sqrt().clamp_max(1.0)
    across = _uniform(count, -1.0, 1.0, generator) * (1 - width)
    down = _uniform(count, -1.0, 1.0, generator) * (1 - height)
    mirrored = torch.rand(count, generator=generator) < 0.5
    affine = torch.zeros(count, 2, 3)
    affine[:, 0, 0] = torch.where(mirrored, -width, width)
    affine[:, 1, 1] = height
    affine[:, 0, 2] = across
    affine[:, 1, 2] = down
    return affine


def _draw_operation(changes: Changes, aspect: float, generator: torch.Generator) -> Changes:
    """One operation for each image on top of its changes so far."""
    count = len(changes.affine)
    chosen = torch.randint(len(_OPERATIONS), (count,), generator=generator)
    strength = _uniform(count, -1.0, 1.0, generator)

    def strength_of(operation: str) -> Tensor:
        """The strength (N,), 0 where another operation was drawn."""
        return torch.where(chosen == _OPERATIONS.index(operation), strength, torch.zeros(count))

    angle = _LARGEST_ANGLE * strength_of("rotate")
    moved = torch.zeros(count, 3, 3)
    # Places are from -1 to 1 in both directions: in an image that is not square, a turn is none in these.
    moved[:, 0, 0] = angle.cos()
    moved[:, 0, 1] = -angle.sin() / aspect + _LARGEST_SHEAR * strength_of("shear across")
    moved[:, 1, 0] = angle.sin() * aspect + _LARGEST_SHEAR * strength_of("shear down")
    moved[:, 1, 1] = angle.cos()
    moved[:, 0, 2] = _LARGEST_MOVE * strength_of("move across")
    moved[:, 1, 2] = _LARGEST_MOVE * strength_of("move down")
    moved[:, 2, 2] = 1.0
    bits = _BITS - ((_BITS - _FEWEST_BITS) * strength_of("posterize").abs()).round().long()
    turned = strength_of("solarize").abs()
    solarized_from = torch.where(turned > 0, 1 - turned, changes.solarized_from)
    return Changes(
        changes.affine @ moved,
        changes.brightness * (1 + 0.5 * strength_of("brightness")),
        changes.contrast * (1 + 0.5 * strength_of("contrast")),
        changes.saturation * (1 + 0.9 * strength_of("saturation")),
        torch.minimum(changes.bits, bits),
        torch.minimum(changes.solarized_from, solarized_from),
    )


def _draw_factor(count: int, most: float, generator: torch.Generator) -> Tensor:
    return _uniform(count, 1 - most, 1 + most, generator)


def _uniform(count: int, least: float, most: float, generator: torch.Generator) -> Tensor:
    return least + (most - least) * torch.rand(count, generator=generator)


def apply_changes(images: Tensor, changes: Changes) -> Tensor:
    """Images (N, C, H, W), changed; bytes stay bytes. Beyond its edges an image is seen mirrored."""
    is_bytes = images.dtype == torch.uint8
    pixels = images.float() if is_bytes else images
    grid = affine_grid(changes.affine.to(pixels.dtype), list(pixels.shape), align_corners=False)
    pixels = grid_sample(pixels, grid, mode="bilinear", padding_mode="reflection", align_corners=False)
    pixels = _coloured(pixels, changes)
    if not is_bytes:
        return pixels
    return _as_bytes(pixels, changes)


def _coloured(pixels: Tensor, changes: Changes) -> Tensor:
    """Brightness, then contrast about each image's mean grey, then saturation about each pixel's grey."""
    pixels = pixels * _each(changes.brightness, pixels)
    mean = _grey_of(pixels).mean((1, 2, 3), keepdim=True)
    pixels = mean + (pixels - mean) * _each(changes.contrast, pixels)
    if pixels.shape[1] == len(_GREY):
        grey = _grey_of(pixels)
        pixels = grey + (pixels - grey) * _each(changes.saturation, pixels)
    return pixels


def _as_bytes(pixels: Tensor, changes: Changes) -> Tensor:
    """Rounded to bytes, of which some bits are kept, and large ones turned round."""
    levels = pixels.round().clamp(0, _BYTES)
    is_turned = levels >= _BYTES * _each(changes.solarized_from, levels)
    levels = torch.where(is_turned, _BYTES - levels, levels)
    width = _each(2.0 ** (_BITS - changes.bits), levels)
    return ((levels / width).floor() * width).to(torch.uint8)


def _grey_of(pixels: Tensor) -> Tensor:
    """(N, 1, H, W): as bright as it is seen for three channels, their mean for any other number."""
    if pixels.shape[1] != len(_GREY):
        return pixels.mean(1, keepdim=True)
    weights = pixels.new_tensor(_GREY).view(1, -1, 1, 1)
    return (pixels * weights).sum(1, keepdim=True)


def _each(values: Tensor, images: Tensor) -> Tensor:
    """A value for each image (N,) as (N, 1, 1, 1)."""
    return values.to(images.dtype).view(-1, 1, 1, 1)
