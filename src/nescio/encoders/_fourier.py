"""Convolutions by Fourier transforms, where these are faster: many channels on a CPU.

At every frequency a convolution is a product of complex numbers. For the paper's large network (192 channels,
kernels of 5 x 5, images of 14 x 14) that is a sixth of the multiplications. The transforms are so short that
they are products with fixed matrices rather than fast Fourier transforms: all of it is products of matrices,
in the order that the numbers have in memory (channels last), and autograd finds the way back.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

# Below these, or above the last, the direct convolution is as fast or faster: benchmarks/convolution.py.
LEAST_CHANNELS = 64
LEAST_KERNEL = 4
LEAST_BATCH = 32
LARGEST_SIDE = 24


class Transforms(NamedTuple):
    """Matrices for images of one size and kernels of one size, with P frequencies.

    Args:
        image: (2, P, H * W): real and imaginary part of each frequency of an image, from its places.
        kernel: (2, P, k * k): the same of the complex conjugate for a kernel.
        inverse: (2, H' * W', P): the places of an output, from real and imaginary parts.
    """

    image: Tensor
    kernel: Tensor
    inverse: Tensor


@functools.lru_cache(maxsize=8)
def make_transforms(height: int, width: int, kernel_height: int, kernel_width: int) -> Transforms:
    """Make the matrices for images of height x width and kernels of kernel_height x kernel_width."""
    with torch.inference_mode(False):  # they are kept, and a later call may want gradients
        return _made_transforms(height, width, kernel_height, kernel_width)


def _made_transforms(height: int, width: int, kernel_height: int, kernel_width: int) -> Transforms:
    frequencies, shares = _needed_frequencies(height, width)
    rows = torch.arange(height, dtype=torch.float64)[:, None]
    columns = torch.arange(width, dtype=torch.float64)
    turns = frequencies[:, 0, None, None] * rows / height + frequencies[:, 1, None, None] * columns / width
    waves = torch.polar(torch.ones_like(turns), -2 * math.pi * turns)  # (P, H, W)
    # Conjugate, because what networks call a convolution is a correlation: the kernel is not turned.
    kernel_waves = waves[:, :kernel_height, :kernel_width].conj()
    # The places where the whole kernel lies inside the image are free of wrap-around.
    output_waves = waves[:, : height - kernel_height + 1, : width - kernel_width + 1].conj()
    inverse = output_waves * (shares / (height * width))[:, None, None]
    return Transforms(
        image=torch.stack([waves.real, waves.imag]).flatten(2).float(),
        kernel=torch.stack([kernel_waves.real, kernel_waves.imag]).flatten(2).float(),
        inverse=torch.stack([inverse.real, -inverse.imag]).flatten(2).mT.float().contiguous(),
    )


def _needed_frequencies(height: int, width: int) -> tuple[Tensor, Tensor]:
    """Frequencies (P, 2) that say all of a real image, and for how many each of them stands (P,).

    The value at (-u, -v) is the conjugate of that at (u, v), so one of both is enough.
    """
    needed = []
    shares = []
    for row in range(height):
        for column in range(width):
            opposite = (-row % height, -column % width)
            if (row, column) < opposite:
                needed.append((row, column))
                shares.append(2.0)
            elif (row, column) == opposite:
                needed.append((row, column))
                shares.append(1.0)
    return torch.tensor(needed, dtype=torch.float64), torch.tensor(shares, dtype=torch.float64)


def fourier_conv2d(inputs: Tensor, weight: Tensor, bias: Tensor | None = None, padding: int = 0) -> Tensor:
    """Compute what `torch.nn.functional.conv2d` does, by Fourier transforms.

    Args:
        inputs: Images (N, I, H, W), float32 on a CPU.
        weight: Kernels (O, I, k, k).
        bias: (O,), or None.
        padding: So many zeros are added on each side.

    Returns:
        Outputs (N, O, H', W'), channels last in memory.
    """
    if padding:
        inputs = functional.pad(inputs, (padding,) * 4)
    matrices = make_transforms(*inputs.shape[2:], *weight.shape[2:])
    real, imaginary = _spectra(matrices.image, inputs)  # each (P, N, I)
    kernel_real, kernel_imaginary = _spectra(matrices.kernel, weight)  # each (P, O, I)
    # (a + ib)(c + id) = (ac - bd) + i (ad + bc), at every frequency a product of (N, I) and (I, O).
    output_real = torch.bmm(real, kernel_real.mT)
    output_real = torch.baddbmm(output_real, imaginary, kernel_imaginary.mT, alpha=-1)
    output_imaginary = torch.bmm(real, kernel_imaginary.mT)
    output_imaginary = torch.baddbmm(output_imaginary, imaginary, kernel_real.mT)
    from_real, from_imaginary = matrices.inverse
    outputs = torch.baddbmm(
        _each_times(from_real, output_real.transpose(0, 1)),
        from_imaginary.expand(len(inputs), -1, -1),
        output_imaginary.transpose(0, 1),
    )  # (N, H' * W', O)
    if bias is not None:
        outputs = outputs + bias
    height = inputs.shape[2] - weight.shape[2] + 1
    return outputs.view(len(inputs), height, -1, len(weight)).permute(0, 3, 1, 2)


def _spectra(matrices: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
    """Real and imaginary parts, each (P, N, C), of images (N, C, H, W)."""
    # Without a copy where channels are last in memory.
    places_first = images.permute(0, 2, 3, 1).contiguous().flatten(1, 2)  # (N, H * W, C)
    to_real, to_imaginary = matrices
    real = _each_times(to_real, places_first)
    imaginary = _each_times(to_imaginary, places_first)
    return real.transpose(0, 1), imaginary.transpose(0, 1)


def _each_times(matrix: Tensor, values: Tensor) -> Tensor:
    """The matrix (F, G) times each of the values (N, G, C), (N, F, C)."""
    return torch.bmm(matrix.expand(len(values), -1, -1), values)


def _is_faster_by_fourier(inputs: Tensor, weight: Tensor, stride: int, padding: int) -> bool:
    # A compiler or an export is to see one convolution, and has its own ways to make it fast.
    if torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return False
    is_plain = inputs.device.type == "cpu" and inputs.dtype == weight.dtype == torch.float32 and stride == 1
    has_many_channels = min(weight.shape[:2]) >= LEAST_CHANNELS
    is_large_kernel = min(weight.shape[2:]) >= LEAST_KERNEL
    is_small_image = max(inputs.shape[2:]) + 2 * padding <= LARGEST_SIDE
    has_many_images = len(inputs) >= LEAST_BATCH
    return is_plain and has_many_channels and is_large_kernel and is_small_image and has_many_images


def conv2d(inputs: Tensor, weight: Tensor, bias: Tensor | None, stride: int = 1, padding: int = 0) -> Tensor:
    """Compute a convolution of images (N, I, H, W) with kernels (O, I, k, k) in the faster of two ways."""
    if _is_faster_by_fourier(inputs, weight, stride, padding):
        return fourier_conv2d(inputs, weight, bias, padding)
    return functional.conv2d(inputs, weight, bias, stride, padding)


class Conv2d(nn.Conv2d):
    """torch's convolution with a square kernel, computed in the faster of two ways.

    Args:
        inputs: Number of channels of the images, I.
        outputs: Number of channels of the outputs, O.
        size: Height and width of the kernels.
        padding: So many zeros are added on each side.
    """

    def __init__(self, inputs: int, outputs: int, size: int, padding: int = 0) -> None:
        super().__init__(inputs, outputs, size, padding=padding)
        self.border = padding

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute outputs (N, O, H', W') of images (N, I, H, W)."""
        return conv2d(inputs, self.weight, self.bias, padding=self.border)
