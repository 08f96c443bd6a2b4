from dataclasses import replace

import pytest
import torch

from nescio.data import Dataset, Table
from nescio.errors import DataError, InputError


def make(n=6, classes=("a", "b", "c")):
    images = torch.arange(n, dtype=torch.uint8).reshape(n, 1, 1, 1).expand(n, 1, 2, 2)
    return Dataset(images, torch.arange(n) % len(classes), classes, "made")


def test_is_frozen_and_says_what_it_is():
    data = make()
    with pytest.raises(AttributeError):
        data.name = "other"
    assert repr(data) == "Dataset('made', 6 images 1x2x2, 3 classes)"
    assert len(data) == 6


def test_only_keeps_and_renumbers_in_the_order_given():
    kept = make().only(["c", 0])
    assert kept.classes == ("c", "a")
    assert kept.labels.tolist() == [1, 0, 1, 0]
    assert kept.images[:, 0, 0, 0].tolist() == [0, 2, 3, 5]


@pytest.mark.parametrize("classes", [["d"], [3], [-1], [], ["a", "a"], ["a", 0]])
def test_only_refuses_unknown_none_and_repeated(classes):
    with pytest.raises(InputError, match="class"):
        make().only(classes)


def test_subset_draws_different_samples_by_the_generator():
    drawn = [make().subset(4, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)]
    pixels = [part.images[:, 0, 0, 0].tolist() for part in drawn]
    assert pixels[0] == pixels[1] != pixels[2]
    assert len(set(pixels[0])) == 4
    assert all(int(v) % 3 == y for v, y in zip(pixels[0], drawn[0].labels.tolist(), strict=True))


@pytest.mark.parametrize("count", [0, 7, -1])
def test_subset_refuses_what_is_not_there(count):
    with pytest.raises(InputError, match="count must be a whole number from 1 to 6"):
        make().subset(count, torch.Generator())


@pytest.mark.parametrize("count", [2.0, "2", None])
def test_subset_wants_a_whole_number(count):
    with pytest.raises(InputError, match="count must be a whole number"):
        make().subset(count, torch.Generator())


def test_fields_must_be_tensors():
    images, labels = torch.zeros(1, 1, 2, 2, dtype=torch.uint8), torch.tensor([0])
    with pytest.raises(InputError, match="bad: images must be a tensor, got ndarray"):
        Dataset(images.numpy(), labels, ("a",), "bad")
    with pytest.raises(InputError, match="bad: labels must be a tensor, got list"):
        Dataset(images, [0], ("a",), "bad")
    with pytest.raises(InputError, match="bad: features must be a tensor, got list"):
        Table([[1.0]], labels, ("a",), "bad")


@pytest.mark.parametrize(
    ("images", "labels", "classes", "reason"),
    [
        (torch.zeros(2, 1, 2, 2).double(), torch.zeros(2, dtype=torch.int64), ("a",), "uint8 or float32"),
        (torch.full((2, 1, 2, 2), torch.nan), torch.zeros(2, dtype=torch.int64), ("a",), "must be finite"),
        (torch.zeros(2, 2, 2, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64), ("a",), "uint8"),
        (torch.zeros(2, 1, 2, 2, dtype=torch.uint8), torch.zeros(2), ("a",), "int64"),
        (torch.zeros(2, 1, 2, 2, dtype=torch.uint8), torch.zeros(3, dtype=torch.int64), ("a",), "3 labels"),
        (torch.zeros(1, 1, 2, 2, dtype=torch.uint8), torch.tensor([1]), ("a",), r"0\.\.0, got 1\.\.1"),
        (torch.zeros(1, 1, 2, 2, dtype=torch.uint8), torch.tensor([-1]), ("a",), r"got -1\.\.-1"),
        (torch.zeros(1, 1, 2, 2, dtype=torch.uint8), torch.tensor([0]), ("a", "a"), "differ"),
    ],
)
def test_what_does_not_fit_is_refused(images, labels, classes, reason):
    with pytest.raises(DataError, match=reason):
        Dataset(images, labels, classes, "bad")


def test_table_does_the_same_for_rows():
    table = Table(torch.arange(8.0).reshape(4, 2), torch.tensor([0, 1, 0, 1]), ("no", "yes"), "t")
    assert repr(table) == "Table('t', 4 rows x 2, 2 classes)"
    assert table.only(["yes"]).features.tolist() == [[2.0, 3.0], [6.0, 7.0]]
    assert len(table.subset(3, torch.Generator().manual_seed(0))) == 3


@pytest.mark.parametrize("features", [torch.tensor([[float("nan")]]), torch.zeros(1, 1, dtype=torch.int64)])
def test_table_refuses_what_is_not_finite_float32(features):
    with pytest.raises(DataError, match="features must be"):
        Table(features, torch.tensor([0]), ("a",), "bad")


def test_groups_and_parts_are_checked_and_follow_their_samples():
    numbers = torch.arange(3)
    data = replace(made_table(), groups=numbers, parts=numbers)
    taken = data.take(torch.tensor([2, 0]))
    assert (taken.groups.tolist(), taken.parts.tolist()) == ([2, 0], [2, 0])
    assert data.only(["b"]).groups.tolist() == [1, 2]
    for wrong in (numbers[:2], numbers.float(), [0, 1, 2]):
        with pytest.raises(DataError, match=r"groups must be int64 \(3,\), got"):
            replace(data, groups=wrong)
    with pytest.raises(DataError, match=r"parts must be 0\.\.2, the positions of"):
        replace(data, parts=numbers + 1)


def made_table():
    return Table(torch.eye(3), torch.tensor([0, 1, 1]), ("a", "b"), "rows")


def test_class_names_that_no_file_can_hold():
    with pytest.raises(DataError, match="class names must be texts that files can hold, got 'caf"):
        Table(torch.zeros(2, 1), torch.tensor([0, 1]), ("caf\udce9", "tea"), "drinks")
