import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.metrics import naive
from tests.metrics.naive import opinions, predicted, random_labels, random_opinion, random_prediction

from nescio import metrics as ev
from nescio.errors import InputError
from nescio.opinions.categorical import Categorical
from nescio.opinions.opinion import Opinion

AREAS = [ev.area_under_risk_coverage, ev.area_under_generalized_risk_coverage, ev.excess_area]


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


# -------------------------------------------------------------------------------------- risk against coverage


def test_risk_coverage_by_hand():
    # In order of u: right, then one right and one wrong at once, then wrong.
    curve = ev.risk_coverage(tensor(0.5, 0.1, 0.9, 0.5), torch.tensor([False, True, False, True]))
    torch.testing.assert_close(curve.coverage, tensor(0.25, 0.75, 1.0))
    torch.testing.assert_close(curve.risk, tensor(0.0, 1 / 3, 0.5))


def test_area_by_hand():
    # 1/4 * 0 + 2/4 * 1/3 + 1/4 * 1/2; perfect: (0 + 0 + 1/3 + 2/4) / 4
    given_ = tensor(0.5, 0.1, 0.9, 0.5), torch.tensor([False, True, False, True])
    assert ev.area_under_risk_coverage(*given_) == pytest.approx(1 / 6 + 1 / 8, rel=1e-14)
    assert ev.excess_area(*given_) == pytest.approx(1 / 6 + 1 / 8 - 5 / 24, rel=1e-12)


@given(naive.ranked())
def test_risk_coverage_is_the_loop(batch):
    curve = ev.risk_coverage(*batch)
    expected = naive.naive_risk_coverage(*(part.tolist() for part in batch))
    torch.testing.assert_close(curve.coverage, tensor(*(coverage for coverage, _ in expected)))
    torch.testing.assert_close(curve.risk, tensor(*(risk for _, risk in expected)))


@given(naive.ranked())
def test_area_is_the_loop(batch):
    expected = naive.naive_aurc(*(part.tolist() for part in batch))
    assert ev.area_under_risk_coverage(*batch) == pytest.approx(expected, abs=1e-12)
    excess = expected - naive.naive_perfect_aurc(batch[1].tolist())
    assert ev.excess_area(*batch) == pytest.approx(excess, abs=1e-12)


def test_generalized_area_by_hand():
    # Shares of accepted errors 0, 0, 1/4, 2/4 at the coverages 0, 1/4, 3/4, 1.
    given_ = tensor(0.5, 0.1, 0.9, 0.5), torch.tensor([False, True, False, True])
    expected = 0.5 * (0 + 1 / 4) / 2 + 0.25 * (1 / 4 + 2 / 4) / 2
    assert ev.area_under_generalized_risk_coverage(*given_) == pytest.approx(expected, rel=1e-14)


@given(naive.ranked())
def test_generalized_area_is_what_its_authors_say_it_is(batch):
    """AUGRC = a (1 - a) (1 - AUROC) + (1 - a)^2 / 2, with every pair of samples compared."""
    expected = naive.naive_augrc(*(part.tolist() for part in batch))
    assert ev.area_under_generalized_risk_coverage(*batch) == pytest.approx(expected, abs=1e-12)


@given(naive.ranked())
def test_area_is_between_the_perfect_and_the_worst_ranking(batch):
    area, correct = ev.area_under_risk_coverage(*batch), batch[1].tolist()
    assert naive.naive_perfect_aurc(correct) - 1e-12 <= area <= naive.naive_worst_aurc(correct) + 1e-12
    assert 0 <= ev.excess_area(*batch) <= area + 1e-12


@given(naive.ranked(), st.randoms(use_true_random=False))
@pytest.mark.parametrize("area", AREAS)
def test_the_order_of_samples_makes_no_difference(area, batch, random):
    order = list(range(len(batch[0])))
    random.shuffle(order)
    assert area(batch[0][order], batch[1][order]) == pytest.approx(area(*batch), abs=1e-12)


@given(naive.ranked())
@pytest.mark.parametrize("area", AREAS)
def test_only_the_ranking_counts(area, batch):
    assert area((3 * batch[0]).exp(), batch[1]) == pytest.approx(area(*batch), abs=1e-12)


@given(naive.ranked())
def test_coverage_rises_to_one_and_the_last_risk_is_the_error_rate(batch):
    curve = ev.risk_coverage(*batch)
    assert (curve.coverage.diff() > 0).all()
    assert curve.coverage[0] > 0
    assert curve.coverage[-1] == 1
    assert curve.risk[-1] == pytest.approx((~batch[1]).double().mean().item())
    assert ((curve.risk >= 0) & (curve.risk <= 1)).all()


def test_area_of_the_perfect_and_of_the_worst_ranking():
    correct = torch.tensor([True] * 7 + [False] * 3)
    rising = torch.arange(10).double()
    assert ev.excess_area(rising, correct) == 0
    assert ev.area_under_risk_coverage(rising, correct) == pytest.approx(
        naive.naive_perfect_aurc(correct.tolist())
    )
    assert ev.area_under_risk_coverage(-rising, correct) == pytest.approx(
        naive.naive_worst_aurc(correct.tolist())
    )


def test_area_where_all_are_tied_is_the_error_rate():
    assert ev.area_under_risk_coverage(torch.full((4,), 0.5), torch.tensor([True, False, True, True])) == 0.25


@pytest.mark.parametrize(("right", "area"), [(True, 0.0), (False, 1.0)])
@pytest.mark.parametrize("count", [1, 9])
def test_area_of_all_right_and_of_none(right, area, count):
    batch = torch.arange(count).double(), torch.full((count,), right)
    assert ev.area_under_risk_coverage(*batch) == pytest.approx(area, abs=1e-15)
    assert ev.excess_area(*batch) == 0


@pytest.mark.parametrize("count", range(2, 60))
def test_rounding_leaves_no_negative_excess(count):
    assert ev.excess_area(torch.zeros(count), torch.zeros(count, dtype=torch.bool)) >= 0


def test_batch_axes_are_flattened():
    uncertainty, correct = torch.rand(2, 3), torch.tensor([[True, False, True], [False, True, True]])
    assert ev.excess_area(uncertainty, correct) == ev.excess_area(uncertainty.flatten(), correct.flatten())


@pytest.mark.parametrize("function", [ev.risk_coverage, *AREAS])
def test_bad_batches_are_refused(function):
    with pytest.raises(InputError, match="uncertainty must have one value or more"):
        function(torch.empty(0), torch.empty(0, dtype=torch.bool))
    with pytest.raises(InputError, match="uncertainty must be finite"):
        function(torch.tensor([math.nan]), torch.tensor([True]))
    with pytest.raises(InputError, match=r"correct must be a bool tensor of shape \(2,\), got bool \(3,\)"):
        function(torch.rand(2), torch.tensor([True] * 3))


# ------------------------------------------------------------------------------- accuracy against a threshold


def test_thresholds_by_hand():
    # u = 1, 0.5, 0.2, 0.1 with K = 2: the first is rejected, the last one wrong.
    opinion = opinions([[0.0, 0.0], [2.0, 0.0], [0.0, 8.0], [18.0, 0.0]])
    curve = ev.accuracy_against_threshold(
        opinion, torch.tensor([0, 0, 1, 1]), tensor(0.0, 0.1, 0.2, 0.5, 0.99, 1.0)
    )
    assert curve.threshold.tolist() == [0.0, 0.1, 0.2, 0.5, 0.99, 1.0]
    assert curve.coverage.tolist() == [0.0, 0.25, 0.5, 0.75, 0.75, 1.0]
    assert math.isnan(curve.accuracy[0])
    torch.testing.assert_close(curve.accuracy[1:], tensor(0.0, 0.5, 2 / 3, 2 / 3, 0.5))


@pytest.mark.parametrize("made", [random_prediction, random_opinion])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_thresholds_are_the_loop(made, dtype):
    prediction, labels = made(60, 3, 10, dtype=dtype), random_labels(60, 3, 11)
    curve = ev.accuracy_against_threshold(prediction, labels)
    right = ((prediction.labels == labels) & ~prediction.is_vacuous).tolist()
    uncertainty = prediction.uncertainty.double().tolist()
    assert curve.threshold.tolist() == [i / 100 for i in range(101)]
    for i, threshold in enumerate(curve.threshold.tolist()):
        accepted = [hit for u, hit in zip(uncertainty, right, strict=True) if u <= threshold]
        assert curve.coverage[i].item() == pytest.approx(len(accepted) / 60)
        if accepted:
            assert curve.accuracy[i].item() == pytest.approx(sum(accepted) / len(accepted))
        else:
            assert curve.accuracy[i].isnan()


@given(naive.evidence_batches())
@settings(deadline=None)
def test_coverage_rises_and_the_end_is_the_accuracy(batch):
    curve = ev.accuracy_against_threshold(*batch)
    assert (curve.coverage.diff() >= 0).all()
    assert curve.coverage[-1] == 1
    assert curve.accuracy[-1].item() == pytest.approx(ev.accuracy(*batch))
    assert (curve.accuracy.isnan() == (curve.coverage == 0)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("percent", [1, 2, 4, 5, 8, 10, 20, 25, 40, 50, 100])
def test_an_uncertainty_at_the_threshold_is_accepted_in_either_type(dtype, percent):
    opinion = Opinion(torch.tensor([[200 / percent - 2, 0.0]], dtype=dtype))  # u = 2 / S, S = 200 / percent
    coverage = ev.accuracy_against_threshold(opinion, torch.tensor([0])).coverage
    assert coverage.tolist() == [0.0] * percent + [1.0] * (101 - percent)


@pytest.mark.parametrize("num_classes", range(2, 60))
def test_an_entropy_that_rounds_to_above_one_is_accepted_at_one(num_classes):
    even = Categorical(torch.full((1, num_classes), 1 / num_classes))
    assert ev.accuracy_against_threshold(even, torch.tensor([0])).coverage[-1] == 1


def test_thresholds_need_not_be_sorted():
    curve = ev.accuracy_against_threshold(predicted([[0.9, 0.1]]), torch.tensor([0]), tensor(1.0, 0.0))
    assert curve.coverage.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        (torch.empty(0), "thresholds must have one value or more"),
        (tensor(math.nan), "thresholds must be finite"),
        (torch.rand(2, 2), r"thresholds must have one axis, got float32 \(2, 2\)"),
        ([0.5], "thresholds must be a tensor of floating point numbers, got list"),
    ],
)
def test_bad_thresholds_are_refused(thresholds, message):
    with pytest.raises(InputError, match=message):
        ev.accuracy_against_threshold(predicted([[0.9, 0.1]]), torch.tensor([0]), thresholds)
