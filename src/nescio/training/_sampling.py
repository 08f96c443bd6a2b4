"""Classes of unequal size: what their samples count, and how often they are taken."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from nescio.errors import InputError
from nescio.training._samples import Samples


def class_weights(
    labels: Tensor, chosen: str | Sequence[float] | None, num_classes: int = 0
) -> Tensor | None:
    """The weight of each class; "balanced" is n / (classes present * samples of the class).

    labels: of the samples (N,) that are trained on. num_classes: there are weights for so many, or more, as
    held-out samples may be of classes that are not among these.
    """
    if chosen is None:
        return None
    counts = labels.bincount(minlength=num_classes)
    if isinstance(chosen, str):
        present = int((counts > 0).sum())
        return len(labels) / (present * counts.clamp_min(1).float())
    if len(chosen) < len(counts):
        raise InputError(
            f"class_weight must have a number for each of {len(counts)} classes, got {len(chosen)}"
        )
    return torch.tensor(chosen)


def with_class_weights(samples: Samples, weight: Tensor | None) -> Samples:
    """Samples that count as their classes do (K,), times what they counted before; as before for None."""
    if weight is None:
        return samples
    counts_as = weight[samples.labels]
    if samples.weights is not None:
        counts_as = samples.weights * counts_as.to(samples.weights.dtype)
    return replace(samples, weights=counts_as)


def balanced_order(labels: Tensor, generator: torch.Generator) -> Tensor:
    """As many positions as there are labels (N,), of each class alike and in random order.

    A class gives each of its samples once before it gives one again.
    """
    by_class = torch.split(labels.argsort(stable=True), labels.bincount().tolist())
    present = [places for places in by_class if len(places)]
    of_each = math.ceil(len(labels) / len(present))
    parts = []
    for places in present:
        taken = []
        for _ in range(math.ceil(of_each / len(places))):
            taken.append(places[torch.randperm(len(places), generator=generator)])
        parts.append(torch.cat(taken)[:of_each])
    positions = torch.cat(parts)
    mixed = torch.randperm(len(positions), generator=generator)
    return positions[mixed][: len(labels)]
