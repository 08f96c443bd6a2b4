import pytest
import torch

from nescio.data._labels import counted, is_no_label, require_two_classes
from nescio.errors import DataError


def test_numbers_by_value_before_names_in_order():
    indices, classes = counted("t", ["b", "10", "9.0", "9", "a"])
    assert classes == ("9", "10", "a", "b")
    assert indices.tolist() == [3, 1, 0, 0, 2]


def test_what_is_no_label():
    assert [is_no_label(text) for text in ("", " ", "nan", " NaN", "0", "none")] == [True] * 4 + [False] * 2


def test_one_class_is_counted_and_not_trained_on():
    indices, classes = counted("t", ["1", "1.0"])
    assert (indices.tolist(), classes) == ([0, 0], ("1",))
    with pytest.raises(DataError, match="t holds no samples"):
        counted("t", [])
    with pytest.raises(DataError, match="t: labels must be of two or more classes, got 1 only"):
        require_two_classes("t", indices, classes)
    with pytest.raises(DataError, match="two or more classes, got b only"):
        require_two_classes("t", torch.tensor([1, 1]), ("a", "b"))
    require_two_classes("t", torch.tensor([1, 0]), ("a", "b"))
