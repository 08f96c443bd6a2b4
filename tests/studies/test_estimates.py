import math

import pytest

from nescio.metrics import Interval, mean_interval, wilson_interval
from nescio.studies._estimates import Estimate, estimate, text_of


def test_a_share_of_one_seed_has_wilson_s_interval():
    assert estimate([0.9], is_share=True, images=200) == Estimate(0.9, wilson_interval(0.9, 200))


def test_two_seeds_are_too_few_for_an_interval_over_them():
    found = estimate([0.8, 0.9], is_share=True, images=200)
    assert found.mean == pytest.approx(0.85)
    assert found.interval == wilson_interval(found.mean, 200)


def test_three_seeds_have_student_s_interval():
    assert estimate([0.5, 0.6, 0.7]).interval == mean_interval([0.5, 0.6, 0.7])


@pytest.mark.parametrize("is_share", [False, True])
def test_an_interval_lies_within_what_a_value_can_be(is_share):
    high = estimate([0.9, 1.0, 1.0], is_share=is_share, images=200)
    assert high.interval == Interval(mean_interval([0.9, 1.0, 1.0]).low, 1.0)
    low = estimate([0.0, 0.0, 0.1], is_share=is_share, images=200)
    assert low.interval == Interval(0.0, mean_interval([0.0, 0.0, 0.1]).high)


def test_a_value_of_any_size():
    values = [0.9, 1.0, 5.0]
    assert estimate(values, most=math.inf).interval == Interval(0.0, mean_interval(values).high)


def test_a_share_that_is_the_same_in_every_seed_is_not_known_exactly():
    found = estimate([0.0, 0.0, 0.0], is_share=True, images=200)
    assert found == Estimate(0.0, wilson_interval(0.0, 200))


def test_what_is_no_share_has_no_interval_of_one_seed():
    assert estimate([0.9]) == Estimate(0.9)
    assert estimate([0.9], is_share=True) == Estimate(0.9)
    assert estimate([]) is None


@pytest.mark.parametrize(
    ("found", "digits", "scale", "text"),
    [
        (None, 2, 100, "-"),
        (Estimate(0.5), 1, 100, "50.0"),
        (Estimate(0.9935, Interval(0.9917, 0.9949)), 2, 100, "99.35 [99.17, 99.49]"),
        (Estimate(9_999.0), 0, 1, "9999"),
        (Estimate(10_000.0), 0, 1, "1.0e4"),
        (Estimate(2.5e9, Interval(2.1e9, 2.9e9)), 0, 1, "2.5e9 [2.1e9, 2.9e9]"),
    ],
)
def test_text(found, digits, scale, text):
    assert text_of(found, digits, scale) == text
