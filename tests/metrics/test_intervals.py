import numpy as np
import pytest
from scipy import stats

from nescio.errors import InputError
from nescio.metrics import mean_interval, wilson_interval


@pytest.mark.parametrize(
    ("right", "count", "level"), [(0, 5, 0.95), (5, 5, 0.95), (3, 7, 0.9), (9935, 10_000, 0.95), (1, 1, 0.99)]
)
def test_wilson_is_that_of_scipy(right, count, level):
    expected = stats.binomtest(right, count).proportion_ci(level, method="wilson")
    found = wilson_interval(right / count, count, level)
    assert found == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_holds_the_true_share_as_often_as_it_says():
    draws = np.random.default_rng(0).binomial(300, 0.9, 2000)
    held = 0
    for drawn in draws:
        low, high = wilson_interval(drawn / 300, 300)
        held += low <= 0.9 <= high
    assert 0.93 < held / 2000 < 0.97


def test_the_mean_of_shares_of_the_same_samples_has_no_too_narrow_an_interval():
    """An image that is right at half of the strengths counts as half: it varies less than a coin."""
    generator = np.random.default_rng(1)
    held = 0
    for _ in range(1000):
        difficulty = generator.random(200)
        share = np.mean([(difficulty > strength).mean() for strength in (0.2, 0.5, 0.8)])
        low, high = wilson_interval(share, 200)
        held += low <= 0.5 <= high
    assert held / 1000 > 0.95


def test_mean_is_that_of_scipy():
    values = [0.9, 0.95, 0.91, 0.97]
    expected = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert mean_interval(values) == pytest.approx(expected)
    assert mean_interval([0.5, 0.5]) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wilson_interval(1.1, 5), r"share must be from 0 to 1, got 1\.1"),
        (lambda: wilson_interval(0.5, 0), "count must be a whole number from 1 on, got 0"),
        (lambda: wilson_interval(0.5, 5, 1.0), r"level must be between 0 and 1, got 1\.0"),
        (lambda: mean_interval([0.5]), "values must be two or more, got 1"),
        (lambda: mean_interval([0.5, 0.6], 0), "level must be between 0 and 1, got 0"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
