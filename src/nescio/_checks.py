"""Checks of arguments: of their form always, of their values where that is cheap.

A look at values makes a program wait for the device. On the CPU there is nothing to wait for; elsewhere,
and inside torch.compile, torch.export and vmap, values are looked at only where `validate` asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import TypeGuard

import torch
from torch import Tensor

from nescio.errors import InputError, NotFiniteError

LARGEST = 1e30  # of evidence: beyond, the strength of an opinion would overflow
LEAST_PRIOR = 1e-6
LARGEST_PRIOR = 1e6
# How far probabilities may be from summing to one: a softmax in bfloat16 is within 0.003, logits are not.
SUM_TOLERANCE = 0.01
NAMED = 5  # names that a message lists
WHOLE_NUMBERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def describe(value: object) -> str:
    """Describe a tensor by its type and shape, anything else by its type: short, for messages."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    return type(value).__name__


def listed(names: Iterable[object], most: int = NAMED) -> str:
    """Names as a message lists them: the first few, and how many more there are."""
    shown = [str(name) for name in names]
    if len(shown) <= most:
        return ", ".join(shown)
    return f"{', '.join(shown[:most])} and {len(shown) - most} more"


def require_floating(name: str, value: object, class_axis: int) -> Tensor:
    """Refuse what is no floating tensor with two or more classes on its class axis; return the tensor."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        raise InputError(f"{name} must be a tensor of floating point numbers, got {describe(value)}")
    if not -value.ndim <= class_axis < value.ndim:
        raise InputError(f"{name} must have a class axis {class_axis}, got {describe(value)}")
    if value.shape[class_axis] < 2:
        raise InputError(f"{name} must have two or more classes, got {describe(value)}")
    return value


def require_raw_labels(value: object, batch: torch.Size) -> None:
    """Refuse what has not one class for each input of a batch (...); None is no labels."""
    if value is None:
        return
    if not isinstance(value, Tensor) or value.dtype not in WHOLE_NUMBERS or value.shape != batch:
        raise InputError(
            f"raw_labels must be a tensor of whole numbers of shape {tuple(batch)}, got {describe(value)}"
        )


def inside_transform() -> bool:
    """Whether torch.func (vmap, grad, ...) is at work: values can't be looked at then."""
    active: bool = torch._C._are_functorch_transforms_active()
    return active


def inside_autocast(tensor: Tensor) -> bool:
    """Whether torch.autocast is on for the device of a tensor: products would be done in half precision."""
    device = tensor.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def require_number(name: str, value: object, least: float = 0.0) -> None:
    """Refuse what is no finite number from `least` on."""
    if not _is_number(value) or not least <= value < math.inf:
        raise InputError(f"{name} must be a number from {least:g} on, got {value!r}")


def require_share(name: str, value: object) -> None:
    """Refuse what is no number above 0 and below 1."""
    if not _is_number(value) or not 0 < value < 1:
        raise InputError(f"{name} must be a number between 0 and 1, got {value!r}")


def require_finite(name: str, value: object) -> None:
    """Refuse what is no finite number."""
    if not _is_number(value) or not math.isfinite(value):
        raise InputError(f"{name} must be a finite number, got {value!r}")


def _is_number(value: object) -> TypeGuard[float]:
    # numbers.Real: numpy's numbers too. True and False are ints to Python, and a mistake here.
    return isinstance(value, Real) and not isinstance(value, bool)


def require_bool(name: str, value: object) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool):
        raise InputError(f"{name} must be True or False, got {value!r}")


def require_whole(name: str, value: object, least: int = 1, most: int | None = None) -> None:
    """Refuse what is no whole number from `least` on, and at most `most` if that is given."""
    expected = f"from {least} on"
    highest = math.inf
    if most is not None:
        expected = f"from {least} to {most}"
        highest = most
    # numbers.Integral: numpy's whole numbers too.
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or not least <= int(value) <= highest:  # type: ignore[call-overload]
        raise InputError(f"{name} must be a whole number {expected}, got {value!r}")


def require_labels(labels: object, shape: Sequence[int], num_classes: int) -> Tensor:
    """Refuse all but whole numbers of this shape, each one of the classes; return them as they are."""
    expected = tuple(shape)
    if not isinstance(labels, Tensor) or labels.dtype not in WHOLE_NUMBERS or tuple(labels.shape) != expected:
        raise InputError(
            f"labels must be a tensor of whole numbers of shape {expected}, got {describe(labels)}"
        )
    if labels.numel():
        least, most = labels.aminmax()
        if least < 0 or most >= num_classes:
            raise InputError(f"labels must be 0 to {num_classes - 1}, got {int(least)} to {int(most)}")
    return labels


def require_prior(prior: float) -> float:
    """Refuse a prior outside the bounds that the formulas were checked for; return it as a float."""
    if not _is_number(prior) or not LEAST_PRIOR <= prior <= LARGEST_PRIOR:
        raise InputError(f"prior must be a number from {LEAST_PRIOR:g} to {LARGEST_PRIOR:g}, got {prior!r}")
    return float(prior)


def looks_at_values(tensor: Tensor, validate: bool | None) -> bool:
    """Whether the values of this tensor are to be checked."""
    if torch.compiler.is_compiling() or inside_transform():
        return False
    return validate if validate is not None else tensor.device.type == "cpu"


def require_evidence(evidence: Tensor, validate: bool | None) -> None:
    """Refuse evidence that is not finite and zero or more; the smallest and the largest value tell."""
    if evidence.numel() and looks_at_values(evidence, validate):
        least, most = (float(bound) for bound in evidence.detach().aminmax())
        if least < 0:
            raise InputError(f"evidence must be finite and zero or more, got {least:g} to {most:g}")
        if not least <= most < LARGEST:  # NaN too
            raise NotFiniteError(
                f"evidence must be finite and zero or more, below {LARGEST:g}, got {least:g} to {most:g}"
            )


def at_least_float32(x: Tensor) -> Tensor:
    """Convert to float32 whatever is narrower; float64 stays."""
    return x if x.dtype == torch.float64 else x.float()


def require_trust(trust: float | Tensor, values: Tensor) -> Tensor:
    """Refuse trust that is not 0 to 1, or does not fit the batch of values (..., K); return a tensor."""
    if not isinstance(trust, Tensor):
        require_number("trust", trust)
    trust = torch.as_tensor(trust, dtype=values.dtype, device=values.device)
    batch = values.shape[:-1]
    if not _broadcasts_to(trust.shape, batch):
        raise InputError(f"trust must be a number or fit the batch {tuple(batch)}, got {describe(trust)}")
    if looks_at_values(trust, None) and not bool(((trust >= 0) & (trust <= 1)).all()):
        least, most = (float(bound) for bound in trust.detach().aminmax())
        raise InputError(f"trust must be 0 to 1, got {least:g} to {most:g}")
    return trust


def _broadcasts_to(shape: torch.Size, batch: torch.Size) -> bool:
    if len(shape) > len(batch):
        return False
    for size, batch_size in zip(reversed(shape), reversed(batch), strict=False):
        if size not in (1, batch_size):
            return False
    return True
