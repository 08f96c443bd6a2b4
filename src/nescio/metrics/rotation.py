"""Images turned about their centre, as the rotated digit of the paper's first figure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from nescio._checks import describe
from nescio.errors import InputError


def rotate(images: Tensor, degrees: Sequence[float]) -> Tensor:
    """Images turned about their centre: bilinear, the size kept; what comes from outside is 0.

    Args:
        images: uint8 (C, H, W) or (N, C, H, W).
        degrees: D angles, counter-clockwise as seen.

    Returns:
        The images by each angle, uint8 (D, ...).

    Raises:
        InputError: If the images are no such tensor, or the angles not finite numbers.

    Example:
        >>> import torch
        >>> from nescio.metrics import rotate
        >>> image = torch.tensor([[[0, 255], [0, 0]]], dtype=torch.uint8)
        >>> rotate(image, [90]).tolist()
        [[[[255, 0], [0, 0]]]]
    """
    _check(images)
    height, width = images.shape[-2:]
    planes = images.reshape(1, -1, height, width).float()
    return torch.stack([_turned(planes, angle).view(images.shape) for angle in _angles(degrees)])


def narrowest(images: Tensor) -> Tensor:
    """The image whose ink covers the fewest columns, the first of them: the straightest 1.

    Args:
        images: uint8 (N, C, H, W).

    Returns:
        One of them, (C, H, W).

    Raises:
        InputError: If the images are no such tensor.

    Example:
        >>> import torch
        >>> from nescio.metrics import narrowest
        >>> wide, narrow = torch.ones(2, 1, 3, 3, dtype=torch.uint8)
        >>> narrow[:, :, 1:] = 0
        >>> torch.equal(narrowest(torch.stack([wide, narrow])), narrow)
        True
    """
    _check(images)
    if images.ndim != 4:
        raise InputError(f"images must be (N, C, H, W), got {describe(images)}")
    columns = (images > 0).any(dim=2).sum(dim=(1, 2))
    return images[int(columns.argmin())]


def _turned(planes: Tensor, degrees: float) -> Tensor:
    """All planes (1, M, H, W) by one angle: the pixel at (x, y), y down, is taken from (cx - sy, sx + cy)."""
    height, width = planes.shape[-2:]
    c = math.cos(math.radians(degrees))
    s = math.sin(math.radians(degrees))
    # affine_grid has both axes from -1 to 1: the off-diagonal undoes that for images that are not square.
    matrix = torch.tensor([[[c, -s * height / width, 0.0], [s * width / height, c, 0.0]]]).to(planes)
    grid = affine_grid(matrix, [1, 1, height, width], align_corners=False)
    turned = grid_sample(planes, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    return turned.round().clamp(0, 255).to(torch.uint8)


def _check(images: Tensor) -> None:
    if not isinstance(images, Tensor) or images.dtype != torch.uint8 or images.ndim not in (3, 4):
        raise InputError(f"images must be uint8 (C, H, W) or (N, C, H, W), got {describe(images)}")
    if not images.numel():
        raise InputError(f"images must have one pixel or more, got {describe(images)}")


def _angles(degrees: Sequence[float]) -> list[float]:
    try:
        angles = [float(angle) for angle in degrees]
    except (TypeError, ValueError):
        raise InputError(f"degrees must be a sequence of numbers, got {degrees!r}") from None
    if not angles or not all(math.isfinite(angle) for angle in angles):
        raise InputError(f"degrees must be one finite angle or more, got {angles}")
    return angles
