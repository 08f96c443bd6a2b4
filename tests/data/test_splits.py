"""A share of every class is held out."""

import pytest
import torch

from nescio.data import Table, split
from nescio.errors import DataError


def table(*counts):
    """Rows 0, 1, 2, ... with so many of each class."""
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    names = tuple(f"c{index}" for index in range(len(counts)))
    return Table(torch.arange(float(len(labels))).unsqueeze(1), labels, names, "table")


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_a_share_of_every_class_is_held_out(share):
    data = table(300, 100, 40)
    kept, held_out = split(data, share, seed=3)
    rows = torch.cat([kept.features, held_out.features]).flatten()
    assert sorted(rows.tolist()) == list(range(440))
    assert len(held_out) == int(440 * share)
    for label, count in enumerate((300, 100, 40)):
        assert int((held_out.labels == label).sum()) == pytest.approx(count * share, abs=1.5)


def test_a_split_is_by_the_seed():
    data = table(50, 50)
    once, again, other = (split(data, 0.2, seed)[1].features for seed in (0, 0, 1))
    assert torch.equal(once, again)
    assert not torch.equal(once, other)


@pytest.mark.parametrize("seed", range(5))
def test_no_class_is_held_out_whole(seed):
    kept, held_out = split(table(1, 1, 2, 30), 0.2, seed)
    assert kept.labels.unique().tolist() == [0, 1, 2, 3]
    assert len(held_out) == 6


def test_too_few_to_hold_any_out():
    with pytest.raises(DataError, match="table has 4 samples, too few to hold 20% of them out"):
        split(table(2, 2), 0.2, 0)
    with pytest.raises(DataError, match="too few"):
        split(table(1, 1, 1, 1, 1), 0.2, 0)
