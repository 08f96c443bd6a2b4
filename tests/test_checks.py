import numpy as np
import pytest

from nescio import InputError
from nescio._checks import listed, require_bool, require_finite, require_number, require_share, require_whole


@pytest.mark.parametrize("value", [1, 0, -3, 2.0, True, "5", None])
def test_what_is_no_whole_number_from_two_on_is_refused(value):
    with pytest.raises(InputError, match=f"points must be a whole number from 2 on, got {value!r}"):
        require_whole("points", value, least=2)


def test_a_whole_number_has_a_most_where_one_is_given():
    require_whole("points", np.int64(7), least=2, most=7)
    with pytest.raises(InputError, match="points must be a whole number from 2 to 7, got 8"):
        require_whole("points", 8, least=2, most=7)


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), "1", None, True])
def test_what_is_no_number_from_zero_on_is_refused(value):
    require_number("rate", np.float32(0.5))
    require_number("rate", np.int64(10))
    with pytest.raises(InputError, match=r"rate must be a number from 0 on, got "):
        require_number("rate", value)


@pytest.mark.parametrize("value", [float("nan"), -float("inf"), "1", None, False])
def test_what_is_no_finite_number_is_refused(value):
    require_finite("bias", -1.5)
    with pytest.raises(InputError, match=f"bias must be a finite number, got {value!r}"):
        require_finite("bias", value)


@pytest.mark.parametrize("value", [0, 1, 1.5, float("nan"), "0.5", None, True])
def test_what_is_no_number_between_0_and_1_is_refused(value):
    require_share("coverage", np.float32(0.5))
    with pytest.raises(InputError, match=f"coverage must be a number between 0 and 1, got {value!r}"):
        require_share("coverage", value)


@pytest.mark.parametrize("value", ["no", 1, None])
def test_what_is_neither_true_nor_false_is_refused(value):
    require_bool("flip", False)
    with pytest.raises(InputError, match=f"flip must be True or False, got {value!r}"):
        require_bool("flip", value)


@pytest.mark.parametrize(
    ("names", "said"),
    [([], ""), (["a"], "a"), (list("abcde"), "a, b, c, d, e"), (range(7), "0, 1, 2, 3, 4 and 2 more")],
)
def test_long_lists_say_how_many_more_there_are(names, said):
    assert listed(names) == said
