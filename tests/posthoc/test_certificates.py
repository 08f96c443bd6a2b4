import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from nescio.posthoc._certificates import (
    CANDIDATE_SHARES,
    binomial_cdf,
    candidate_counts,
    clopper_pearson,
    fewest_without_error,
    levels_of,
)


def naive_bound(errors, count, level, steps=20_000):
    """The least p of a fine grid where the binomial sum, term by term, is at most the level."""
    for step in range(1, steps):
        p = step / steps
        if math.fsum(math.comb(count, k) * p**k * (1 - p) ** (count - k) for k in range(errors + 1)) <= level:
            return p
    return 1.0


@pytest.mark.parametrize(
    ("errors", "count", "level"), [(0, 1, 0.05), (0, 60, 0.05), (1, 12, 0.001), (7, 40, 0.3), (19, 20, 0.01)]
)
def test_bound_is_that_of_a_naive_search(errors, count, level):
    assert clopper_pearson(errors, count, level) == pytest.approx(naive_bound(errors, count, level), abs=5e-5)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_bound_and_sum_are_those_of_scipy(data):
    count = data.draw(st.integers(1, 200_000))
    errors = data.draw(st.integers(0, count - 1))
    level = data.draw(st.floats(1e-9, 0.9))
    assert clopper_pearson(errors, count, level) == pytest.approx(
        stats.beta.ppf(1 - level, errors + 1, count - errors), rel=1e-6, abs=1e-12
    )
    p = data.draw(st.floats(1e-6, 1 - 1e-6))
    assert binomial_cdf(errors, count, p) == pytest.approx(
        stats.binom.cdf(errors, count, p), rel=1e-6, abs=1e-12
    )


def test_nothing_is_known_without_samples_or_without_a_right_answer():
    assert clopper_pearson(0, 0, 0.05) == 1
    assert clopper_pearson(5, 5, 0.05) == 1
    assert binomial_cdf(400, 500, 0.001) == 1


def test_the_fewest_samples_are_those_that_no_error_certifies():
    assert fewest_without_error(0.01, 0.05) == 299
    assert 0.99**299 <= 0.05 < 0.99**298
    assert fewest_without_error(1e-310, 0.05) == 10**15


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 10**7), st.floats(1e-5, 0.999), st.floats(1e-6, 0.95))
def test_levels_add_up_to_delta_and_are_for_different_counts(size, target, delta):
    counts = candidate_counts(size)
    levels = levels_of(size, target, delta)
    assert counts[0] == size
    assert len(set(counts)) == len(counts) <= len(CANDIDATE_SHARES)
    assert list(levels) == counts[: len(levels)]
    assert math.fsum(levels.values()) == pytest.approx(delta)
    assert min(levels.values()) >= 0
