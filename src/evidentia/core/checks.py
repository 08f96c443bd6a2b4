"""Checks of arguments: of their form always, of their values where that is cheap.

A look at values makes a program wait for the device. On the CPU there is nothing to wait for; elsewhere,
and inside torch.compile, torch.export and vmap, values are looked at only where `validate` asks for it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from evidentia.errors import InputError


def describe(value: object) -> str:
    """A tensor by its type and shape, anything else by its type: short, for messages."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    return type(value).__name__


def require_floating(name: str, value: object, class_axis: int) -> Tensor:
    """A floating tensor with two or more classes on its class axis."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        raise InputError(f"{name} must be a tensor of floating point numbers, got {describe(value)}")
    if value.ndim <= max(class_axis, 0):
        raise InputError(f"{name} must have a class axis, got {describe(value)}")
    if value.shape[class_axis] < 2:
        raise InputError(f"{name} must have two or more classes, got {describe(value)}")
    return value


def looks_at_values(tensor: Tensor, validate: bool | None) -> bool:
    """Whether the values of this tensor are to be checked."""
    if torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None:
        return False
    return validate if validate is not None else tensor.device.type == "cpu"


def require_evidence(evidence: Tensor, validate: bool | None) -> None:
    """Evidence that is zero or more and no NaN; the smallest value tells both."""
    if evidence.numel() and looks_at_values(evidence, validate):
        least = float(evidence.detach().amin())
        if not least >= 0:
            raise InputError(f"evidence must be zero or more, got {least:g}")
