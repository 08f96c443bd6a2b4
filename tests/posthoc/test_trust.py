import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from scipy import stats

from nescio.errors import InputError
from nescio.posthoc.trust import (
    LARGEST_HALF_AT,
    LEAST_HALF_AT,
    LEAST_TRUST,
    MOST_HELD_OUT,
    Trust,
    cross_fitted_distances,
    half_at_for,
)


def drawn(count, features=8, seed=0):
    return torch.randn(count, features, generator=torch.Generator().manual_seed(seed)) + 2


@pytest.fixture(scope="module")
def trust():
    return Trust.fit(drawn(1000), drawn(500, seed=1))


def test_the_p_value_is_the_conformal_one(trust):
    new = drawn(40, seed=2)
    distances = trust.distances(new)
    for place in range(40):
        farther = int((trust.held_out >= distances[place]).sum())
        assert float(trust.p_values(new)[place]) == pytest.approx((1 + farther) / 501)


def test_p_values_of_known_inputs_are_valid():
    """Over many calibrations, a p-value of a or less comes in a share of a, within its binomial band."""
    distance = Trust.fit(drawn(1000), drawn(500, seed=1)).distance
    trials = 400
    for level in (0.05, 0.2, 0.5):
        below = 0
        for seed in range(trials):
            fitted = Trust.of(distance, drawn(99, seed=10 + seed))
            below += int(fitted.p_values(drawn(1, seed=10_000 + seed)) <= level)
        low, high = stats.binom.interval(0.9999, trials, level)
        assert low <= below <= high


def test_trust_falls_with_the_distance_and_is_never_zero(trust):
    distances = torch.linspace(0, 100, 1000)
    values = trust.at(distances)
    assert (values.diff() <= 0).all()
    assert values[0] > 0.99
    assert values[-1] == pytest.approx(LEAST_TRUST)
    assert float(trust.at(torch.tensor([1e30]))) == pytest.approx(LEAST_TRUST)


def test_the_tail_is_log_linear_and_goes_on_below_the_least_p_value(trust):
    start, decay = trust.tail_start, trust.tail_decay
    distances = start + decay * torch.tensor([0.0, 1.0, 5.0, 20.0])
    shares = trust.tail_share * torch.exp(-torch.tensor([0.0, 1.0, 5.0, 20.0]))
    torch.testing.assert_close(
        trust.at(distances), (shares / (shares + trust.half_at)).clamp_min(LEAST_TRUST), rtol=1e-4, atol=1e-6
    )
    assert float(trust.p_values_at(distances[-1:])) == pytest.approx(1 / 501)


def test_before_the_tail_log_q_is_linear_between_shares(trust):
    points = [*trust.bulk, (trust.tail_share, trust.tail_start)]
    assert [share for share, _ in trust.bulk] == [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    for (share, start), (later, end) in pairwise(points):
        middle = math.sqrt(share * later)
        assert float(trust.at(torch.tensor([start]))) == pytest.approx(
            share / (share + trust.half_at), rel=1e-4
        )
        found = float(trust.at(torch.tensor([(start + end) / 2])))
        assert found == pytest.approx(middle / (middle + trust.half_at), rel=1e-4)


def test_before_the_tail_trust_follows_the_share_of_held_out_inputs(trust):
    distances = trust.held_out[::7]
    at_least_as_far = (trust.held_out >= distances[:, None]).float().mean(1)
    shares = trust.half_at * trust.at(distances) / (1 - trust.at(distances))
    before = distances <= trust.tail_start
    torch.testing.assert_close(shares[before], at_least_as_far[before], rtol=0.12, atol=0.03)
    assert float(trust.at(torch.tensor([-1e9]))) == pytest.approx(1 / (1 + trust.half_at), rel=1e-4)


def test_known_inputs_lose_as_much_as_is_said(trust):
    for half_at in (0.001, 0.01):
        lost = 1 - replace(trust, half_at=half_at).at(trust.held_out).mean()
        assert float(lost) == pytest.approx(half_at * math.log1p(1 / half_at), rel=0.15)


@pytest.mark.parametrize("num_wrong", [20, 30, 60])
def test_trust_takes_a_quarter_of_what_the_network_errs(num_wrong):
    half_at = half_at_for(num_wrong, 1000)
    assert half_at * math.log1p(1 / half_at) == pytest.approx((num_wrong + 1) / 1002 / 4, rel=1e-6)


def test_there_is_a_least_and_a_largest_half():
    assert half_at_for(0, 1000) == pytest.approx(LEAST_HALF_AT)
    assert half_at_for(1000, 1000) == pytest.approx(LARGEST_HALF_AT)


@pytest.mark.parametrize(
    ("num_wrong", "count", "message"),
    [(3, 2, "num_wrong must be at most count, 2"), (-1, 2, "num_wrong"), (0, 0, "count")],
)
def test_errors_that_can_not_be(num_wrong, count, message):
    with pytest.raises(InputError, match=message):
        half_at_for(num_wrong, count)


def test_without_a_bulk_it_goes_on_as_in_the_tail(trust):
    """As in files of version 0.2, which say what they said."""
    before = replace(trust, bulk=None)
    beyond = trust.tail_start + torch.tensor([0.0, 1.0, 7.0])
    torch.testing.assert_close(before.at(beyond), trust.at(beyond))
    near = trust.tail_start - trust.tail_decay * torch.tensor([0.5, 2.0])
    shares = trust.tail_share * torch.exp(torch.tensor([0.5, 2.0]))
    torch.testing.assert_close(before.at(near), shares / (shares + trust.half_at))
    assert "bulk" not in before.settings()
    assert Trust.from_parts(before.settings(), before.tensors()).bulk is None


def test_distances_that_are_nearly_all_the_same_are_taken_too(trust):
    same = torch.ones(500)
    same[-3:] = torch.tensor([1.5, 2.0, 3.0])
    fitted = Trust.of(lambda features: features[:, 0], same[:, None])
    values = fitted.at(torch.tensor([0.0, 1.0, 1.1, 2.0, 9.0]))
    assert values.isfinite().all()
    assert (values.diff() <= 0).all()


def test_the_decay_is_the_likeliest_of_an_exponential_tail():
    class Column:
        """The first feature is the distance."""

        num_features = 1

        def __call__(self, features):
            return features[:, 0]

    values = torch.distributions.Exponential(2.0)
    torch.manual_seed(0)
    fitted = Trust.of(Column(), values.sample((20_000, 1)))
    assert fitted.tail_share == pytest.approx(0.02)
    assert fitted.tail_decay == pytest.approx(0.5, rel=0.15)
    assert math.exp(-fitted.tail_start * 2) == pytest.approx(0.02, rel=0.15)


def test_half_of_the_trust_is_left_where_it_is_said(trust):
    log_factor = math.log(trust.tail_share / trust.half_at)
    at_half = trust.tail_start + trust.tail_decay * log_factor
    assert float(trust.at(torch.tensor([at_half]))) == pytest.approx(0.5, abs=1e-4)


def test_far_inputs_are_trusted_less_whatever_the_kind():
    labels = torch.arange(1000) % 2
    known = drawn(1000) + 3 * labels[:, None] * torch.tensor([1.0, 0, 0, 0, 0, 0, 0, 0])
    far = drawn(20, seed=5) * torch.tensor([1.0, -1, 1, -1, 1, -1, 1, -1])
    for kind in ("neighbours", "gaussians"):
        for is_unit in (True, False):
            fitted = Trust.fit(known[:800], known[800:], labels=labels[:800], kind=kind, is_unit=is_unit)
            assert fitted(far).median() < 0.5 < fitted(known[800:]).median()


def test_labels_choose_gaussians():
    known = drawn(400)
    assert Trust.fit(known[:300], known[300:]).distance.kind == "neighbours"
    labels = torch.arange(300) % 3
    assert Trust.fit(known[:300], known[300:], labels=labels).distance.kind == "gaussians"


def test_kept_and_made_again_it_is_the_same(trust):
    again = Trust.from_parts(trust.settings(), trust.tensors())
    new = drawn(20, seed=4)
    assert torch.equal(again(new), trust(new))
    assert torch.equal(again.p_values(new), trust.p_values(new))
    assert again.settings() == trust.settings()
    assert trust.to("cpu") is trust
    assert "1,000 training inputs" in trust.describe()
    assert "500 inputs" in trust.describe()


def test_of_very_many_a_sample_is_kept():
    fitted = Trust.fit(drawn(9000, 3), drawn(MOST_HELD_OUT + 50, 3, seed=1))
    assert len(fitted.held_out) == MOST_HELD_OUT
    assert len(fitted.tensors()["prototypes"]) == 8000
    assert torch.equal(
        fitted.held_out, Trust.fit(drawn(9000, 3), drawn(MOST_HELD_OUT + 50, 3, seed=1)).held_out
    )


def test_distances_that_are_all_alike_give_a_finite_trust():
    known = torch.eye(3).repeat(100, 1)
    fitted = Trust.fit(known, known[:90])
    assert fitted(known[:3]).min() > 0.9
    assert fitted(-known[:3]).max() < 0.5
    assert fitted.p_values(-known[:3]).tolist() == pytest.approx([1 / 91] * 3)


@pytest.mark.parametrize(
    ("features", "held_out", "match"),
    [
        (torch.ones(100, 3), drawn(60, 3), "features must differ, got 100 rows"),
        (drawn(100, 3), drawn(49, 3), "held_out must have 50 rows or more, got 49"),
        (drawn(1, 3), drawn(60, 3), "features must have 2 rows or more"),
        (drawn(100, 3), drawn(60, 4), "held_out must have 3 features like the training data, got 4"),
        (drawn(100, 3).index_fill(0, torch.tensor([3]), math.nan), drawn(60, 3), "features must be finite"),
        (drawn(100, 3), drawn(60, 3).index_fill(0, torch.tensor([3]), math.inf), "held_out must be finite"),
        (torch.ones(100, 3, dtype=torch.int64), drawn(60, 3), "floating point"),
        (drawn(100, 3)[0], drawn(60, 3), r"\(N, F\)"),
        ([[1.0]], drawn(60, 3), "got list"),
    ],
)
def test_what_can_not_be_fitted_is_refused(features, held_out, match):
    with pytest.raises(InputError, match=match):
        Trust.fit(features, held_out)


def test_fields_that_do_not_fit_are_refused(trust):
    with pytest.raises(InputError, match=r"features must be \(N, 8\)"):
        trust(torch.ones(2, 3))
    with pytest.raises(InputError, match="labels must be"):
        Trust.fit(drawn(100), drawn(60), labels=torch.zeros(3, dtype=torch.int64))
    wrong = {
        "tail_decay": 0.0,
        "half_at": -1.0,
        "tail_share": 2.0,
        "tail_start": math.nan,
        "bulk": ((0.5, 2.0), (0.9, 1.0)),
    }
    for name, value in wrong.items():
        with pytest.raises(InputError, match=name):
            Trust.from_parts({**trust.settings(), name: value}, trust.tensors())
    for bulk in (
        [],
        [[1.0, -1e300]],
        [[1.0, trust.tail_start * (1 - 1e-12)]],
        [[math.nan, 0.0]],
        [["a", 0.0]],
    ):
        with pytest.raises(InputError, match="bulk"):
            Trust.from_parts({**trust.settings(), "bulk": bulk}, trust.tensors())
    with pytest.raises(InputError, match="held_out must be distances"):
        Trust.from_parts(trust.settings(), {**trust.tensors(), "held_out": torch.zeros(0)})


def test_a_distance_that_is_fitted_already_needs_as_many_held_out_inputs():
    distance = Trust.fit(drawn(200), drawn(50, seed=1)).distance
    with pytest.raises(InputError, match="held_out must have 50 rows or more, got 49"):
        Trust.of(distance, drawn(49, seed=1))


def test_cross_fitted_trust_measures_every_input_without_its_tenth():
    rows = drawn(100)
    trust = Trust.cross_fit(rows, is_unit=False)
    nearest = torch.cdist(rows, rows).fill_diagonal_(math.inf).amin(1)
    # An input's nearest may be of the same tenth, which is left out: never nearer than among all others.
    assert (trust.held_out >= 0.99 * nearest.sort().values).all()
    assert float(trust.held_out.median()) == pytest.approx(float(nearest.median()), rel=0.1)
    assert len(trust.distance.tensors()["prototypes"]) == 100
    assert torch.equal(Trust.cross_fit(rows, is_unit=False).held_out, trust.held_out)


def test_cross_fitted_p_values_are_too_large_rather_than_too_small():
    shares = []
    for seed in range(60):
        trust = Trust.cross_fit(drawn(60, seed=seed), is_unit=False)
        shares.append(float((trust.p_values(drawn(200, seed=1000 + seed)) <= 0.1).float().mean()))
    assert 0.03 < sum(shares) / len(shares) <= 0.1


def test_a_cross_fitted_trust_is_kept_as_one():
    trust = Trust.cross_fit(drawn(60))
    again = Trust.from_parts(trust.settings(), trust.tensors())
    assert again.is_cross_fitted
    assert again.describe() == trust.describe()
    assert trust.describe().endswith("60 training inputs, measured on themselves, a tenth at a time")
    new = drawn(10, seed=3)
    assert torch.equal(again(new), trust(new))


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (drawn(24), "features must have 25 rows or more, got 24"),
        (torch.ones(60, 3), "features must differ"),
        (torch.full((60, 3), math.nan), "features must be finite"),
    ],
)
def test_what_can_not_be_cross_fitted(features, message):
    with pytest.raises(InputError, match=message):
        Trust.cross_fit(features)


def test_groups_are_not_measured_by_themselves():
    centres = drawn(20)
    rows = (centres[:, None] + 0.01 * drawn(20, seed=4)[:, None]).repeat(1, 5, 1).flatten(0, 1)
    rows = rows + 1e-3 * drawn(100, seed=5)
    alone = Trust.cross_fit(rows, is_unit=False)
    grouped = Trust.cross_fit(rows, is_unit=False, groups=torch.arange(100) // 5)
    assert float(alone.held_out.median()) < 0.1 < float(grouped.held_out.median())
    new = drawn(200, seed=6)
    assert float((alone.p_values(new) <= 0.05).float().mean()) > 0.9
    assert float((grouped.p_values(new) <= 0.05).float().mean()) <= 0.05 + 3 * (0.05 * 0.95 / 200) ** 0.5


def test_with_groups_each_of_them_counts_as_one():
    rows = drawn(60)
    groups = torch.arange(60) // 5 - 7
    trust = Trust.cross_fit(rows, is_unit=False, groups=groups)
    distances = cross_fitted_distances(rows, is_unit=False, seed=0, groups=groups)
    new = 2 * drawn(20, seed=1)
    for asked, actual in zip(trust.distances(new), trust.p_values(new), strict=True):
        as_far = 0.0
        for group in groups.unique():
            as_far += float((distances[groups == group] >= asked).float().mean())
        assert float(actual) == pytest.approx((1 + as_far) / 13, rel=1e-4)
    assert float(trust.p_values(100 * new).max()) == pytest.approx(1 / 13)


@pytest.mark.parametrize("is_held_out", [False, True])
@pytest.mark.parametrize(("num_groups", "size", "noise"), [(10, 20, 0.02), (20, 15, 0.02), (40, 8, 0.3)])
def test_p_values_keep_their_promise_for_new_groups(num_groups, size, noise, is_held_out):
    """With each row counted as one, P(p <= 0.01) was up to 0.07 here."""
    level = 0.05
    shares = []
    for seed in range(60):
        generator = torch.Generator().manual_seed(seed)
        centres = torch.randn(num_groups, 4, generator=generator).repeat_interleave(size, 0)
        rows = centres + noise * torch.randn(num_groups * size, 4, generator=generator)
        groups = torch.arange(num_groups).repeat_interleave(size)
        if is_held_out:
            training = torch.randn(200, 4, generator=generator)
            trust = Trust.fit(training, rows, is_unit=False, groups=groups)
        else:
            trust = Trust.cross_fit(rows, is_unit=False, groups=groups, seed=seed)
        p_values = trust.p_values(torch.randn(500, 4, generator=generator))
        shares.append(float((p_values <= level).float().mean()))
        assert float(p_values.min()) >= 1 / (num_groups + 1) - 1e-6
    mean = sum(shares) / len(shares)
    spread = (sum((share - mean) ** 2 for share in shares) / (len(shares) - 1) / len(shares)) ** 0.5
    assert mean <= level + 3 * spread


def test_weights_are_kept_and_go_along():
    groups = torch.arange(60) // 5
    trust = Trust.cross_fit(drawn(60), groups=groups)
    again = Trust.from_parts(trust.settings(), trust.tensors())
    new = drawn(9, seed=1)
    assert again.p_values(new).equal(trust.p_values(new))
    assert trust.to("meta").weights.device.type == "meta"
    with pytest.raises(InputError, match="weights must be 60, one for each distance, got float32"):
        replace(trust, weights=torch.ones(3))


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (torch.arange(60) // 7, "features must be of 10 groups or more, .* got 9"),
        (torch.arange(59), r"groups must be whole numbers \(60,\), one for each row, got int64 \(59,\)"),
        (torch.arange(60).float(), r"groups must be whole numbers \(60,\), one for each row, got float32"),
        (list(range(60)), "groups must be whole numbers .* got list"),
    ],
)
def test_groups_that_do_not_fit_are_refused(groups, message):
    with pytest.raises(InputError, match=message):
        Trust.cross_fit(drawn(60), groups=groups)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.arange(100).remainder(3).float(), "labels must be whole numbers"),
        (torch.arange(100).remainder(3) - 1, "labels must be from 0 on, got -1"),
    ],
)
def test_labels_that_are_no_classes_are_refused(labels, message):
    with pytest.raises(InputError, match=message):
        Trust.fit(drawn(100), drawn(60, seed=1), labels=labels)


def test_training_features_are_not_taken_for_held_out_ones():
    with pytest.raises(InputError, match="held_out must have had no part in training"):
        Trust.fit(drawn(100), drawn(100))


@pytest.mark.parametrize("is_unit", [True, False])
def test_features_too_long_for_float32_are_refused(is_unit):
    with pytest.raises(InputError, match="features must be short enough for float32"):
        Trust.fit(1e20 * drawn(100), drawn(60, seed=1), is_unit=is_unit)


def test_of_known_inputs_at_most_one_in_a_hundred_has_a_p_value_of_one_in_a_hundred():
    """The promise at 0.01 itself, over many draws: 99 held-out inputs are the fewest that can keep it."""
    found = 0
    for seed in range(100):
        trust = Trust.fit(drawn(300, seed=seed), drawn(99, seed=1000 + seed), is_unit=False)
        found += int((trust.p_values(drawn(200, seed=2000 + seed)) <= 0.01).sum())
    # Of one calibration the share varies by sqrt(0.01 * 0.99 / 100) about 0.01, of a hundred a tenth as much.
    slack = 4 * math.sqrt(0.01 * 0.99 / 100 / 100 + 0.01 * 0.99 / 20_000)
    assert 0.01 - slack <= found / 20_000 <= 0.01 + slack
