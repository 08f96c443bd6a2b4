"""split: hold a share of labelled data out."""

from __future__ import annotations

import torch

from nescio.data.dataset import Dataset, Table
from nescio.errors import DataError


def split(data: Dataset | Table, share: float, seed: int) -> tuple[Dataset | Table, Dataset | Table]:
    """Hold a share of a data set out: by chance, of every class alike.

    Args:
        data: Images or rows with labels.
        share: How much to hold out, above 0 and below 1.
        seed: Seed of the random choice.

    Returns:
        The rest, with one sample or more of each class, and what is held out.

    Raises:
        DataError: If there are too few samples for that.

    Example:
        >>> table = Table(torch.eye(10), torch.arange(10) % 2, ("a", "b"), "ten rows")
        >>> rest, held_out = split(table, 0.2, seed=0)
        >>> len(rest), len(held_out)
        (8, 2)
    """
    count = int(len(data) * share)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
    order = order[data.labels[order].argsort(stable=True)]
    first = data.labels[order].diff(prepend=torch.tensor([-1])) != 0
    spare = order[~first]
    if not 1 <= count <= len(spare):
        raise DataError(f"{data.name} has {len(data)} samples, too few to hold {share:.0%} of them out")
    held_out = torch.zeros(len(data), dtype=torch.bool)
    held_out[spare[(2 * torch.arange(count) + 1) * len(spare) // (2 * count)]] = True  # evenly spread
    return data.take(~held_out), data.take(held_out)
