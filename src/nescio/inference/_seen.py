"""SeenSamples: short digests of what a model was trained or calibrated on, by which these are known again.

A promise that is made from training data does not hold: the model is better on them than on anything new. So
it is with the data that temperature and trust were fitted to.
The digests are 32 bits a sample, of at most 20,000 samples; two different samples share one by chance once in
four billion. Some data have equal samples, such as tables with few columns. So it is also kept how often new
samples are equal to some of training: that much is no sign of training data.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio._checks import describe, require_number, require_whole
from nescio.data import StoredArray
from nescio.data._stored import row_chunks, select_rows
from nescio.errors import InputError

MOST_SAMPLES = 20_000
COMPARED = 2_000  # samples by which it is found out how many are equal by chance
LARGEST_SHARE = 0.05  # of samples that were trained on, among data for a promise
_LEVEL = 1e-3  # how unlikely a finding must be by chance to be believed


@dataclass(frozen=True, eq=False)
class SeenSamples:
    """Digests of training samples, and how often new samples are equal to one of them. Made by `of`.

    Args:
        digests: int64 (M,) in growing order, each from 0 to 2^32 - 1.
        share: The share of the training samples that these are.
        chance: The share of new samples that have one of the digests by chance.
        compared: How many samples `chance` was taken from.

    Raises:
        InputError: If these are not what they must be.

    Example:
        >>> seen = SeenSamples.of(torch.eye(50))
        >>> seen.share_of(torch.eye(50)[:10]), seen.share_of(2 * torch.eye(50)[:10])
        (1.0, 0.0)
    """

    digests: Tensor
    share: float
    chance: float
    compared: int

    def __post_init__(self) -> None:
        if self.digests.dtype != torch.int64 or self.digests.ndim != 1:
            raise InputError(f"digests must be int64 (M,), got {describe(self.digests)}")
        for name in ("share", "chance"):
            require_number(name, getattr(self, name))
        require_whole("compared", self.compared, least=0)

    @classmethod
    def of(cls, inputs: Tensor | StoredArray, new: Tensor | StoredArray | None = None) -> SeenSamples:
        """Take the digests of training inputs.

        Args:
            inputs: Raw inputs (N, ...) as the model is fed.
            new: Others, not trained on (M, ...), to find out how often samples are equal by chance.
                Default: found out from the training inputs themselves.
        """
        generator = torch.Generator().manual_seed(0)
        order = torch.randperm(len(inputs), generator=generator)
        kept = _digests_of(select_rows(inputs, order[:MOST_SAMPLES].sort().values))
        values, counts = np.unique(kept, return_counts=True)
        if len(inputs) > MOST_SAMPLES:
            others = order[MOST_SAMPLES : MOST_SAMPLES + COMPARED].sort().values
            is_equal = np.isin(_digests_of(select_rows(inputs, others)), values)
        else:
            # Whether another sample has the same digest.
            is_equal = counts[np.searchsorted(values, kept[:COMPARED])] > 1
        if new is not None:
            index = torch.randperm(len(new), generator=generator)[:COMPARED].sort().values
            of_new = np.isin(_digests_of(select_rows(new, index)), values)
            # Those that are equal more often than training samples are to each other were trained on.
            is_equal = min(of_new, is_equal, key=_share_of_true)
        chance = _share_of_true(is_equal)
        share = len(kept) / max(len(inputs), 1)
        return cls(torch.from_numpy(values), share, chance, len(is_equal))

    def share_of(self, inputs: Tensor | StoredArray) -> float:
        """The share of inputs (N, ...) that were trained on, as far as can be told: 0 if it may be chance."""
        matches, count = self._matches(inputs)
        if not _is_more_than(matches, count, self._likely_chance()):
            return 0.0
        found = (matches / count - self.chance) / max(self.share - self.chance, 1e-9)
        return min(max(found, 0.0), 1.0)

    def are_seen(self, inputs: Tensor | StoredArray) -> bool:
        """Whether more than a twentieth of inputs (N, ...) was surely trained on."""
        matches, count = self._matches(inputs)
        return _is_more_than(matches, count, self._likely_chance() + LARGEST_SHARE * self.share)

    def to_dict(self) -> dict[str, Any]:
        """All but the digests, for JSON."""
        return {"share": self.share, "chance": self.chance, "compared": self.compared}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], digests: Tensor) -> SeenSamples:
        """What `to_dict` wrote, with the digests.

        Raises:
            InputError: If a field is not what it must be.
        """
        return cls(digests, values["share"], values["chance"], values["compared"])

    def _matches(self, inputs: Tensor | StoredArray) -> tuple[int, int]:
        """How many inputs have one of the digests, and how many were looked at."""
        index = torch.arange(len(inputs))
        if len(inputs) > MOST_SAMPLES:
            generator = torch.Generator().manual_seed(0)
            index = torch.randperm(len(inputs), generator=generator)[:MOST_SAMPLES].sort().values
        found = np.isin(_digests_of(select_rows(inputs, index)), self.digests.numpy())
        return int(found.sum()), len(found)

    def _likely_chance(self) -> float:
        """The chance, and what so few compared samples may have missed."""
        count = max(self.compared, 1)
        spread = math.sqrt(self.chance * (1 - self.chance) / count)
        return self.chance + 3 * spread + 3 / count


def share_repeated(inputs: Tensor | StoredArray) -> float:
    """The share of inputs (N, ...) that are equal to another one of them."""
    _, places, counts = np.unique(_digests_of(inputs), return_inverse=True, return_counts=True)
    return _share_of_true(counts[places] > 1)


def _is_more_than(matches: int, count: int, share: float) -> bool:
    """Whether so many matches are more than this share of the samples would give by chance."""
    from scipy.special import betainc

    if matches == 0 or share >= 1:
        return False
    # P(Binomial(count, share) >= matches)
    return bool(betainc(matches, count - matches + 1, share) < _LEVEL)


def _share_of_true(values: NDArray[np.bool_]) -> float:
    return float(values.mean()) if len(values) else 0.0


def _digests_of(inputs: Tensor | StoredArray) -> np.ndarray:
    """A number of 32 bits for each input, int64 (N,); numbers of any type are the same as in float32."""
    found = []
    for part in row_chunks(inputs):
        rows = part.detach().cpu().float().flatten(1) + 0.0  # -0 is 0
        for row in rows.contiguous().numpy():
            found.append(int.from_bytes(hashlib.blake2b(row.data, digest_size=4).digest(), "little"))
    return np.array(found, dtype=np.int64)
