"""Labels as people write them: names or numbers, counted from 0."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nescio.data._columns import as_number
from nescio.errors import DataError


def is_no_label(text: str) -> bool:
    return text.strip().lower() in ("", "nan")


def counted(name: str, values: Sequence[object]) -> tuple[Tensor, tuple[str, ...]]:
    """Labels counted from 0 (N,) and the names they stand for, one or more.

    A model can be measured on one class alone; what is trained on is checked by `require_two_classes`.
    """
    names = {value: _class_name(str(value)) for value in set(values)}
    found = sorted(set(names.values()), key=_in_order)
    if not found:
        raise DataError(f"{name} holds no samples")
    position = {one: index for index, one in enumerate(found)}
    return torch.tensor([position[names[value]] for value in values]), tuple(found)


def require_two_classes(name: str, indices: Tensor, classes: Sequence[str]) -> None:
    """Refuse labels (N,) that are of fewer than two of these classes: there is nothing to learn from them."""
    found = [classes[index] for index in sorted(set(indices.tolist()))]
    if len(found) < 2:
        only = ", ".join(found) or "none"
        raise DataError(f"{name}: labels must be of two or more classes, got {only} only")


def _class_name(label: str) -> str:
    """Numbers by their value, whole ones without a fraction: 1, 1.0 and 1e0 are one class."""
    number = as_number(label)
    # Of whole numbers beyond 2**53 a float knows only the first digits: they stay as they are written.
    if number is None or "_" in label or not abs(number) < 2**53:
        return label
    return str(int(number)) if number.is_integer() else str(number)


def _in_order(label: str) -> tuple[int, float, str]:
    """Numbers by value, before everything else by name."""
    number = as_number(label)
    return (1, 0.0, label) if number is None else (0, number, label)
