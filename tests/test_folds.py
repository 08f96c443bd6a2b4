"""Folds: every sample in one, of about equal sizes, classes spread and groups together."""

import torch

from nescio._folds import folds_of


def test_folds_are_of_about_equal_sizes_and_the_same_for_a_seed():
    folds = folds_of(23, 5, 0)
    assert sorted(folds.bincount().tolist()) == [4, 4, 5, 5, 5]
    assert torch.equal(folds, folds_of(23, 5, 0))
    assert not torch.equal(folds, folds_of(23, 5, 1))


def test_of_every_class_alike():
    labels = torch.tensor([0] * 50 + [1] * 10 + [2] * 3)
    folds = folds_of(63, 5, 0, labels=labels)
    for label, spread in ((0, 0), (1, 0), (2, 1)):
        counts = folds[labels == label].bincount(minlength=5)
        assert counts.max() - counts.min() == spread


def test_a_group_is_in_one_fold():
    groups = torch.tensor([0] * 30 + [1] * 8 + [2] * 8 + [4] * 8 + [7] * 6)
    folds = folds_of(60, 3, 0, groups=groups)
    for group in groups.unique():
        assert len(folds[groups == group].unique()) == 1
    assert sorted(folds.bincount(minlength=3).tolist()) == [14, 16, 30]


def test_fewer_groups_than_folds_leave_some_empty():
    assert folds_of(10, 5, 0, groups=torch.arange(10) // 5).bincount(minlength=5).tolist() == [5, 5, 0, 0, 0]


def test_groups_may_be_numbered_in_any_way():
    groups = torch.tensor([900_000_017, -3, 5]).repeat(4)
    folds = folds_of(12, 3, 0, groups=groups)
    assert torch.equal(folds, folds_of(12, 3, 0, groups=torch.tensor([2, 0, 1]).repeat(4)))
    assert folds.bincount().tolist() == [4, 4, 4]
