import math

import pytest
import torch
from hypothesis import given, settings
from sklearn.metrics import log_loss
from tests.metrics import naive
from tests.metrics.naive import opinions, predicted, random_labels, random_opinion, random_prediction
from torchmetrics.functional.classification import multiclass_calibration_error

from nescio import metrics as ev
from nescio.errors import InputError
from nescio.opinions.categorical import Categorical
from nescio.opinions.opinion import Opinion

THREE = predicted([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.5, 0.4, 0.1]])


def labelled(*values):
    return torch.tensor(values)


# ------------------------------------------------------------------------------------------------- accuracy


def test_accuracy_by_hand():
    assert ev.accuracy(THREE, labelled(0, 2, 1)) == pytest.approx(2 / 3)
    assert ev.raw_accuracy(THREE, labelled(0, 2, 1)) == pytest.approx(2 / 3)


@pytest.mark.parametrize("function", [ev.accuracy, ev.raw_accuracy])
def test_accuracy_of_all_and_of_none(function):
    assert function(THREE, labelled(0, 2, 0)) == 1
    assert function(THREE, labelled(1, 1, 1)) == 0


def test_a_rejected_sample_is_wrong_though_its_argmax_is_right():
    opinion = opinions([[0.0, 0.0, 0.0], [9.0, 0.0, 0.0]])
    assert opinion.uncertainty[0] == 1
    assert ev.accuracy(opinion, labelled(0, 0)) == 0.5
    assert ev.raw_accuracy(opinion, labelled(0, 0)) == 1


def test_raw_outputs_have_an_order_where_there_is_no_evidence():
    opinion = Opinion.from_logits(torch.tensor([[-3.0, -1.0, -2.0], [-1.0, 5.0, 0.0]]), "relu")
    assert opinion.is_vacuous.tolist() == [True, False]
    assert ev.raw_accuracy(opinion, labelled(1, 1)) == 1
    assert ev.raw_accuracy(opinion, labelled(0, 1)) == 0.5
    assert ev.accuracy(opinion, labelled(1, 1)) == 0.5
    assert ev.answered_accuracy(opinion, labelled(1, 1)) == 1
    assert ev.answered_share(opinion) == 0.5


def test_an_even_softmax_is_not_rejected():
    assert ev.accuracy(predicted([[0.5, 0.5]]), labelled(0)) == 1


@given(naive.evidence_batches())
@settings(deadline=None)
def test_accuracy_is_the_loop(batch):
    opinion, labels = batch
    rows = opinion.evidence.tolist()
    argmax = [row.index(max(row)) == y for row, y in zip(rows, labels.tolist(), strict=True)]
    answered = [right and max(row) > 0 for row, right in zip(rows, argmax, strict=True)]
    assert ev.raw_accuracy(opinion, labels) == pytest.approx(sum(argmax) / len(rows))
    assert ev.accuracy(opinion, labels) == pytest.approx(sum(answered) / len(rows))


# ------------------------------------------------------------------------------- likelihood and squared error


def test_likelihood_by_hand():
    expected = -(math.log(0.7) + math.log(0.6) + math.log(0.4)) / 3
    assert ev.negative_log_likelihood(THREE, labelled(0, 2, 1)) == pytest.approx(expected, rel=1e-14)


def test_likelihood_of_an_opinion_is_type_two():
    """log S - log alpha_y, equation 3 of the paper."""
    expected = math.log(50) - math.log(41)
    assert ev.negative_log_likelihood(opinions([[40.0] + [0.0] * 9]), labelled(0)) == pytest.approx(expected)


def test_likelihood_is_that_of_scikit_learn():
    prediction, labels = random_prediction(200, 5, seed=2), random_labels(200, 5, seed=3)
    expected = log_loss(labels.numpy(), prediction.probabilities.numpy(), labels=range(5))
    assert ev.negative_log_likelihood(prediction, labels) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("dtype", "worst"), [(torch.float32, 87.3365), (torch.float64, 708.3964)])
def test_likelihood_of_the_impossible_is_large_and_finite(dtype, worst):
    prediction = Categorical(torch.tensor([[1.0, 0.0]], dtype=dtype))
    assert ev.negative_log_likelihood(prediction, labelled(1)) == pytest.approx(worst, abs=1e-3)
    assert ev.negative_log_likelihood(prediction, labelled(0)) == 0


def test_brier_by_hand():
    rows = [0.3**2 + 0.2**2 + 0.1**2, 0.1**2 + 0.3**2 + 0.4**2, 0.5**2 + 0.6**2 + 0.1**2]
    assert ev.brier_score(THREE, labelled(0, 2, 1)) == pytest.approx(sum(rows) / 3, rel=1e-14)


def test_brier_at_best_at_worst_and_of_chance():
    sure = predicted([[1.0, 0.0], [0.0, 1.0]])
    assert ev.brier_score(sure, labelled(0, 1)) == 0
    assert ev.brier_score(sure, labelled(1, 0)) == 2
    assert ev.brier_score(opinions([[0.0] * 4]), labelled(3)) == pytest.approx(1 - 1 / 4)


def test_brier_is_the_loop():
    prediction, labels = random_opinion(50, 4, seed=4), random_labels(50, 4, seed=5)
    rows = prediction.probabilities.tolist()
    squares = [
        (p - (k == y)) ** 2 for row, y in zip(rows, labels.tolist(), strict=True) for k, p in enumerate(row)
    ]
    assert ev.brier_score(prediction, labels) == pytest.approx(sum(squares) / 50, rel=1e-12)


# ---------------------------------------------------------------------------------------------- calibration


def test_reliability_by_hand():
    # Confidences 0.75 (right), 0.75 (wrong), 0.5 (right), 1 (right), in four bins: an edge opens its bin.
    prediction = predicted([[0.75, 0.25], [0.75, 0.25], [0.5, 0.5], [0.0, 1.0]])
    found = ev.reliability(prediction, labelled(0, 1, 0, 1), bins=4)
    assert found.count.tolist() == [0, 0, 1, 3]
    torch.testing.assert_close(found.confidence[2:], torch.tensor([0.5, 2.5 / 3], dtype=torch.float64))
    torch.testing.assert_close(found.accuracy[2:], torch.tensor([1.0, 2 / 3], dtype=torch.float64))
    assert found.confidence[:2].isnan().all()
    assert found.accuracy[:2].isnan().all()


def test_a_sample_without_evidence_is_counted_by_its_raw_output():
    opinion = Opinion(torch.zeros(4, 2), raw_labels=labelled(1, 1, 0, 0))
    labels = labelled(1, 0, 0, 1)
    found = ev.reliability(opinion, labels, bins=2)
    assert found.confidence[1] == 0.5
    assert found.accuracy[1] == ev.raw_accuracy(opinion, labels) == 0.5
    assert ev.accuracy(opinion, labels) == 0
    assert ev.expected_calibration_error(opinion, labels, bins=2) == 0


def test_calibration_error_by_hand():
    # |2/3 - 2.5/3| * 3/4 + |1 - 0.5| * 1/4
    prediction = predicted([[0.75, 0.25], [0.75, 0.25], [0.5, 0.5], [0.0, 1.0]])
    error = ev.expected_calibration_error(prediction, labelled(0, 1, 0, 1), bins=4)
    assert error == pytest.approx(0.125 + 0.125, rel=1e-14)


@pytest.mark.parametrize("bins", [1, 2, 7, 15, 100])
@pytest.mark.parametrize("made", [random_prediction, random_opinion])
def test_reliability_is_the_loop(made, bins):
    prediction, labels = made(80, 3, 6), random_labels(80, 3, 7)
    correct = (prediction.labels == labels).tolist()
    rows = naive.naive_reliability(prediction.max_probability().tolist(), correct, bins)
    found = ev.reliability(prediction, labels, bins)
    assert found.count.tolist() == [n for _, _, n in rows]
    for b, (confidence, right, n) in enumerate(rows):
        assert not n or found.confidence[b].item() == pytest.approx(confidence, rel=1e-12)
        assert not n or found.accuracy[b].item() == pytest.approx(right, rel=1e-12)
    error = sum(n * abs(right - confidence) for confidence, right, n in rows if n) / 80
    assert ev.expected_calibration_error(prediction, labels, bins) == pytest.approx(error, rel=1e-12)


@pytest.mark.parametrize("bins", [5, 15])
def test_calibration_error_is_that_of_torchmetrics(bins):
    prediction = random_prediction(300, 4, seed=8)
    labels = prediction.probabilities.multinomial(1, generator=torch.Generator().manual_seed(9)).squeeze(1)
    expected = multiclass_calibration_error(prediction.probabilities, labels, num_classes=4, n_bins=bins)
    assert ev.expected_calibration_error(prediction, labels, bins) == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("tenth", [6, 7, 8, 9])
def test_an_edge_opens_its_bin_in_either_type(dtype, tenth):
    p = torch.tensor([[tenth / 10, 1 - tenth / 10]], dtype=dtype)
    assert ev.reliability(Categorical(p), labelled(0), bins=10).count.argmax() == tenth


def test_a_confidence_that_rounds_to_above_one_is_in_the_last_bin():
    found = ev.reliability(predicted([[1 + 1e-7, 0.0]]), labelled(0), bins=3)
    assert found.count.tolist() == [0, 0, 1]


def test_calibration_error_at_best_and_at_worst():
    sure = predicted([[1.0, 0.0], [0.0, 1.0]])
    assert ev.expected_calibration_error(sure, labelled(0, 1)) == 0
    assert ev.expected_calibration_error(sure, labelled(1, 0)) == 1


@given(naive.evidence_batches())
@settings(deadline=None)
def test_calibration_error_is_a_share_and_counts_are_whole(batch):
    opinion, labels = batch
    assert 0 <= ev.expected_calibration_error(opinion, labels) <= 1
    assert ev.reliability(opinion, labels).count.sum() == len(labels)


@pytest.mark.parametrize("function", [ev.reliability, ev.expected_calibration_error])
@pytest.mark.parametrize("bins", [0, -1, 1.5])
def test_bins_must_be_a_whole_number(function, bins):
    with pytest.raises(InputError, match=f"bins must be a whole number from 1 on, got {bins}"):
        function(THREE, labelled(0, 2, 1), bins=bins)


def test_the_share_of_the_answered_needs_a_prediction():
    with pytest.raises(InputError, match="prediction must be an Opinion or a Categorical, got float32"):
        ev.answered_share(torch.ones(2, 3))
    with pytest.raises(InputError, match="prediction must have one sample or more"):
        ev.answered_share(Opinion(torch.zeros(0, 3)))
