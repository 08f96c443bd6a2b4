"""split: hold a part of labelled data out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from nescio.data.dataset import PARTS, LabelledData
from nescio.errors import DataError, InputError

Data = TypeVar("Data", bound=LabelledData)
ROUNDS = 4  # in which groups are tried on the other side
_PART_NAMES = {
    "train": ("train", "training"),
    "validation": ("validation", "val", "valid", "dev"),
    "test": ("test", "testing"),
}


def split(
    data: Data, share: float, seed: int, *, groups: Sequence[object] | Tensor | None = None
) -> tuple[Data, Data]:
    """Hold a part of a data set out: what it names itself, else a share by chance, of every class alike.

    Data that says what it is for (`data.parts`, as a folder with sub-folders train and test does) is split
    by that: its test part is held out, else its validation part. Split again, the rest gives its validation
    part.

    Args:
        data: Images, rows or texts with labels.
        share: How much to hold out, above 0 and below 1.
        seed: Seed of the random choice.
        groups: What each sample belongs to, (N,) of any values, such as the patient of a picture: no group is
            on both sides. Default: `data.groups`. With groups the share is met about, not exactly.

    Returns:
        The rest, with one sample or more of each class, and what is held out. Neither is a copy of data that
        lies on the disk.

    Raises:
        DataError: If there are too few samples or groups for that.
        InputError: If there is not one group for each sample.

    Example:
        >>> from nescio.data import Table
        >>> table = Table(torch.eye(10), torch.arange(10) % 2, ("a", "b"), "ten rows")
        >>> rest, held_out = split(table, 0.2, seed=0)
        >>> len(rest), len(held_out)
        (8, 2)
        >>> rest, held_out = split(table, 0.2, seed=0, groups=list("xxxxyyzzww"))
        >>> len(rest), len(held_out)
        (8, 2)
    """
    held_out = held_out_rows(data, share, seed, groups=groups)
    return cast(Data, data.take(~held_out)), cast(Data, data.take(held_out))


def held_out_rows(
    data: LabelledData,
    share: float,
    seed: int,
    *,
    groups: Sequence[object] | Tensor | None = None,
) -> Tensor:
    """Where the samples lie that `split` holds out, bool (N,)."""
    named = named_rows(data)
    if named is not None:
        return named
    codes = data.groups if groups is None else group_codes(data.name, groups, len(data))
    if codes is None:
        return _by_chance(data, share, seed)
    return _by_group(data, codes, share, seed)


def group_codes(name: str, groups: Sequence[object] | Tensor, count: int) -> Tensor:
    """Groups of any values as numbers from 0 on, int64 (N,).

    Raises:
        InputError: If there is not one for each of so many samples.
    """
    values = groups.tolist() if isinstance(groups, Tensor | np.ndarray) else list(groups)
    if len(values) != count:
        raise InputError(f"{name}: groups must be {count}, one for each sample, got {len(values)}")
    codes: dict[object, int] = {}
    return torch.tensor([codes.setdefault(value, len(codes)) for value in values], dtype=torch.int64)


def part_of(name: str) -> int | None:
    """The position among `PARTS` of what people call a part of data; None for any other name."""
    for position, part in enumerate(PARTS):
        if name.strip().lower() in _PART_NAMES[part]:
            return position
    return None


def named_rows(data: LabelledData, parts: Sequence[str] = ("test", "validation")) -> Tensor | None:
    """Where the part lies that the data names itself to be held out, bool (N,); None where it names none.

    Args:
        data: Images, rows or texts with labels.
        parts: Names of parts; the first that the data has is meant.

    Raises:
        DataError: If a class would be missing from the rest.
    """
    if data.parts is None:
        return None
    for part in parts:
        held_out = data.parts == PARTS.index(part)
        if held_out.any() and not held_out.all():
            _require_every_class(data, ~held_out)
            return held_out
    return None


def _require_every_class(data: LabelledData, kept: Tensor) -> None:
    """Refuse a class of which only held-out samples are there: it can't be learned."""
    present = data.labels.bincount(minlength=len(data.classes))
    learned = data.labels[kept].bincount(minlength=len(data.classes))
    for label, (count, num_kept) in enumerate(zip(present.tolist(), learned.tolist(), strict=True)):
        if count and not num_kept:
            raise DataError(f"{data.name}: nothing to train on is of the class {data.classes[label]}")


def _by_chance(data: LabelledData, share: float, seed: int) -> Tensor:
    count = int(len(data) * share)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
    order = order[data.labels[order].argsort(stable=True)]
    first = data.labels[order].diff(prepend=torch.tensor([-1])) != 0
    spare = order[~first]
    if not 1 <= count <= len(spare):
        raise DataError(f"{data.name} has {len(data)} samples, too few to hold {share:.0%} of them out")
    held_out = torch.zeros(len(data), dtype=torch.bool)
    held_out[spare[(2 * torch.arange(count) + 1) * len(spare) // (2 * count)]] = True  # evenly spread
    return held_out


def _by_group(data: LabelledData, groups: Tensor, share: float, seed: int) -> Tensor:
    """Whole groups, largest first, where each brings the classes nearer to their share."""
    codes = group_codes(data.name, groups, len(data))
    num_groups = int(codes.max()) + 1
    num_classes = len(data.classes)
    cells = codes * num_classes + data.labels
    counts = cells.bincount(minlength=num_groups * num_classes).view(num_groups, num_classes)
    totals = counts.sum(0)
    order = torch.randperm(num_groups, generator=torch.Generator().manual_seed(seed))
    order = order[counts.sum(1)[order].argsort(descending=True, stable=True)]
    is_present = totals > 0
    held = torch.zeros(num_classes, dtype=torch.int64)
    chosen = torch.zeros(num_groups, dtype=torch.bool)
    # The first round chooses; the others take back or add what fits better beside what was chosen later.
    for _ in range(ROUNDS):
        before = chosen.clone()
        for group in order.tolist():
            changed = held - counts[group] if chosen[group] else held + counts[group]
            leaves_all_classes = bool((changed < totals)[is_present].all())
            if leaves_all_classes and _gap(changed, totals, share) < _gap(held, totals, share):
                held = changed
                chosen[group] = ~chosen[group]
        if torch.equal(chosen, before):
            break
    if not chosen.any():
        raise DataError(
            f"{data.name} has {num_groups} groups, too few or too large to hold {share:.0%} of the samples "
            "out and to keep samples of every class"
        )
    return chosen[codes]


def _gap(held: Tensor, totals: Tensor, share: float) -> float:
    """How far what is held of each class, and of all samples, is from its share.

    The part of a class counts, not its number of samples: rare classes are to be split as well as others.
    """
    of_classes = held / totals.clamp_min(1) - share
    of_all = held.sum() / totals.sum() - share
    return float((of_classes[totals > 0] ** 2).mean() + of_all**2)
