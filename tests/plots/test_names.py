import pytest

from nescio.errors import InputError
from nescio.plots._names import class_names, short_name


def test_classes_are_named_by_their_numbers_unless_they_have_names():
    assert class_names(None, 3) == ("0", "1", "2")
    assert class_names(["a", "b"], 2) == ("a", "b")
    with pytest.raises(InputError, match="classes must be the names of 3 classes, got 2"):
        class_names(["a", "b"], 3)


def test_long_names_are_cut_and_stand_on_one_line():
    assert short_name("a  fox\nin the snow") == "a fox in the snow"
    assert short_name("x" * 30) == "x" * 17 + "…"
