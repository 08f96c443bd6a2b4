"""Folds: parts of few samples, each of which is in turn held out from the others."""

from __future__ import annotations

import torch
from torch import Tensor


def folds_of(
    count: int, num_folds: int, seed: int, *, labels: Tensor | None = None, groups: Tensor | None = None
) -> Tensor:
    """The fold of each sample, int64 (N,), in about equal numbers.

    Args:
        count: How many samples there are.
        num_folds: How many folds; with fewer groups some stay empty.
        seed: Seed of the random choice.
        labels: Classes (N,), to have of every class alike in each fold; None for none.
        groups: What each sample belongs to, int64 (N,): no group is in two folds, whatever its classes, and
            nothing is left to chance. None where all are on their own.
    """
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    folds = torch.empty(count, dtype=torch.int64)
    if groups is None:
        if labels is not None:
            order = order[labels[order].argsort(stable=True)]
        folds[order] = torch.arange(count) % num_folds
        return folds
    codes = torch.unique(groups, return_inverse=True)[1].cpu()
    sizes = codes.bincount()
    in_fold = torch.zeros(num_folds, dtype=torch.int64)
    # The largest first, each to the fold that has the fewest samples so far.
    for group in sizes.argsort(descending=True, stable=True).tolist():
        fold = int(in_fold.argmin())
        folds[codes == group] = fold
        in_fold[fold] += sizes[group]
    return folds
