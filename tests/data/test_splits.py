"""A share of every class is held out."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nescio.data import Table, Texts, split
from nescio.data.splits import part_of
from nescio.errors import DataError, InputError


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


@pytest.mark.parametrize("seed", range(5))
def test_no_group_is_on_both_sides(seed):
    random = torch.Generator().manual_seed(seed)
    data = table(300, 100, 40)
    groups = torch.randint(0, 60, (440,), generator=random)
    kept, held_out = split(data, 0.2, seed, groups=groups)
    chosen = held_out.features.flatten().long()
    assert len(kept) + len(held_out) == 440
    assert not set(groups[chosen].tolist()) & set(groups[kept.features.flatten().long()].tolist())
    assert len(held_out) == pytest.approx(440 * 0.2, rel=0.1)
    for label, count in enumerate((300, 100, 40)):  # about the share, of every class
        assert int((held_out.labels == label).sum()) == pytest.approx(count * 0.2, rel=0.3, abs=2)
        assert int((kept.labels == label).sum()) > 0


def test_groups_of_any_values_and_of_the_data_itself():
    data = table(6, 6)
    names = ["ann", "bob", "cy", "dee", "ed", "flo"] * 2
    _, held_out = split(data, 0.2, 0, groups=names)
    whose = {names[int(row)] for row in held_out.features.flatten()}
    assert len(held_out) == 2
    assert len(whose) == 1
    again = split(replace(data, groups=torch.arange(12) % 6), 0.2, 0)[1]
    assert torch.equal(again.features, held_out.features)
    assert torch.equal(again.groups, torch.tensor([0, 0]) + again.groups[0])
    numbers = split(data, 0.2, 0, groups=np.arange(12) % 6)[1]
    assert torch.equal(numbers.features, held_out.features)


def test_a_split_by_group_is_by_the_seed():
    data = replace(table(50, 50), groups=torch.arange(100) // 5)
    once, again, other = (split(data, 0.2, seed)[1].features for seed in (0, 0, 1))
    assert torch.equal(once, again)
    assert not torch.equal(once, other)


def test_groups_that_can_not_be_split():
    with pytest.raises(DataError, match="1 groups, too few or too large to hold 20% of the samples out"):
        split(table(10, 10), 0.2, 0, groups=[7] * 20)
    with pytest.raises(DataError, match="keep samples of every class"):
        split(table(10, 10), 0.2, 0, groups=[0] * 10 + [1] * 10)  # each class is one group
    with pytest.raises(InputError, match="table: groups must be 20, one for each sample, got 3"):
        split(table(10, 10), 0.2, 0, groups=[1, 2, 3])


def test_parts_that_the_data_names():
    data = replace(table(5, 5), parts=torch.tensor([0, 0, 1, 2, 2, 0, 1, 1, 2, 0]))
    rest, test = split(data, 0.5, 0)
    assert test.features.flatten().tolist() == [3, 4, 8]
    train, watched = split(rest, 0.5, 0)
    assert watched.features.flatten().tolist() == [2, 6, 7]
    assert train.features.flatten().tolist() == [0, 1, 5, 9]
    smaller, by_chance = split(train, 0.25, 0)  # nothing is named any more
    assert (len(smaller), len(by_chance)) == (3, 1)


@pytest.mark.parametrize(
    ("name", "part"), [("Train", 0), ("val", 1), ("dev", 1), (" testing", 2), ("cat", None)]
)
def test_what_people_call_the_parts(name, part):
    assert part_of(name) == part


def test_texts_are_split_too():
    texts = Texts(tuple("abcdefghij"), torch.arange(10) % 2, ("x", "y"), "letters")
    rest, held_out = split(texts, 0.2, 0)
    assert sorted(rest.texts + held_out.texts) == list("abcdefghij")
