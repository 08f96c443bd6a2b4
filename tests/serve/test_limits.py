"""Limits: what they allow."""

from dataclasses import fields

import pytest

from nescio import InputError
from nescio.serve import Limits


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "many", None, True])
def test_a_limit_is_a_positive_number(name, value):
    with pytest.raises(InputError, match=f"^{name} must be"):
        Limits(**{name: value})


def test_sizes_are_whole_and_times_need_not_be():
    with pytest.raises(InputError, match=r"max_inputs must be a whole number from 1 on, got 1\.5"):
        Limits(max_inputs=1.5)
    assert Limits(read_timeout=0.5).read_timeout == 0.5


def test_a_body_that_would_never_be_accepted():
    with pytest.raises(InputError, match="max_body must be at most max_total_body, 10, got 11"):
        Limits(max_body=11, max_total_body=10)
