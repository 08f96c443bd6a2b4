from dataclasses import is_dataclass

import pytest
import torch
from tests.metrics.naive import predicted, random_labels, random_prediction

from nescio import metrics
from nescio._checks import WHOLE_NUMBERS
from nescio.errors import InputError
from nescio.metrics import _inputs as inputs
from nescio.opinions.categorical import Categorical
from nescio.opinions.opinion import Opinion

WITH_LABELS = [
    metrics.accuracy,
    metrics.raw_accuracy,
    metrics.negative_log_likelihood,
    metrics.brier_score,
    metrics.expected_calibration_error,
    metrics.reliability,
    metrics.accuracy_against_threshold,
    metrics.summary,
]
WITHOUT_LABELS = [
    metrics.measures,
    metrics.entropy_cdf,
    lambda prediction: metrics.detection_by_measure(prediction, prediction),
    lambda prediction: metrics.detection_summary(prediction, prediction),
]
BAD_PREDICTIONS = [
    (torch.rand(3, 4), r"must be an Opinion or a Categorical, got float32 \(3, 4\)"),
    (None, "must be an Opinion or a Categorical, got NoneType"),
    (Categorical(torch.empty(0, 4)), r"must have one sample or more, got float32 \(0, 4\)"),
    (
        Categorical(torch.tensor([[0.5, float("nan")], [0.5, 0.5]])),
        "must be zero or more and sum to 1, got values nan",
    ),
    (Categorical(torch.tensor([[1.5, -0.5]])), "sum to 1, got values -0.5 to 1.5, sums 1 to 1"),
    (Categorical(torch.tensor([[0.5, 0.5], [2.0, 3.0]])), "sum to 1, got values 0.5 to 3, sums 1 to 5"),
    (Categorical(torch.tensor([[0.5, 0.5], [0.1, 0.1]])), "sum to 1, got values 0.1 to 0.5, sums 0.2 to 1"),
    (Categorical(torch.tensor([[float("inf"), 0.0]])), "sum to 1, got values 0 to inf"),
    (Opinion(torch.tensor([[float("nan"), 1.0]])), "sum to 1, got values nan"),
]


def assert_same(one, other):
    """Two results, of numbers or of tensors, to the bit."""
    one, other = (vars(result) if is_dataclass(result) else result for result in (one, other))
    torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("function", WITH_LABELS)
@pytest.mark.parametrize(("prediction", "message"), BAD_PREDICTIONS)
def test_bad_predictions_are_refused_with_labels(function, prediction, message):
    with pytest.raises(InputError, match=message):
        function(prediction, torch.zeros(2, dtype=torch.int64))


@pytest.mark.parametrize("function", WITHOUT_LABELS)
@pytest.mark.parametrize(("prediction", "message"), BAD_PREDICTIONS)
def test_bad_predictions_are_refused_without_labels(function, prediction, message):
    with pytest.raises(InputError, match=message):
        function(prediction)


@pytest.mark.parametrize("function", WITH_LABELS)
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.tensor([0, 3]), "labels must be 0 to 2, got 0 to 3"),
        (torch.tensor([-1, 0]), "labels must be 0 to 2, got -1 to 0"),
        (torch.tensor([0]), r"labels must be a tensor of whole numbers of shape \(2,\), got int64 \(1,\)"),
        (torch.tensor([[0], [1]]), r"labels must be .* of shape \(2,\), got int64 \(2, 1\)"),
        (torch.tensor([0.0, 1.0]), r"labels must be a tensor of whole numbers .*, got float32 \(2,\)"),
        (torch.tensor([True, False]), r"labels must be a tensor of whole numbers .*, got bool \(2,\)"),
        ([0, 1], "labels must be a tensor of whole numbers .*, got list"),
    ],
)
def test_bad_labels_are_refused(function, labels, message):
    with pytest.raises(InputError, match=message):
        function(predicted([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]]), labels)


@pytest.mark.parametrize("dtype", WHOLE_NUMBERS)
def test_every_type_of_whole_number_is_a_label(dtype):
    labels = inputs.require_labels(predicted([[0.5, 0.5], [0.5, 0.5]]), torch.tensor([0, 1], dtype=dtype))
    assert labels.dtype == torch.int64
    assert labels.tolist() == [0, 1]


def test_a_softmax_in_bfloat16_is_let_through():
    rounded = Categorical(torch.randn(500, 10).bfloat16().softmax(-1).float())
    assert inputs.require_probabilities(rounded).shape == (500, 10)


@pytest.mark.parametrize("function", WITH_LABELS)
def test_batch_axes_make_no_difference(function):
    prediction, labels = random_prediction(12, 4, seed=0), random_labels(12, 4, seed=1)
    folded = Categorical(prediction.probabilities.view(3, 2, 2, 4))
    assert_same(function(folded, labels.view(3, 2, 2)), function(prediction, labels))


@pytest.mark.parametrize("function", WITH_LABELS)
def test_a_single_prediction_is_a_batch_of_one(function):
    single, batch = predicted([0.1, 0.2, 0.7]), predicted([[0.1, 0.2, 0.7]])
    assert_same(function(single, torch.tensor(2)), function(batch, torch.tensor([2])))


@pytest.mark.parametrize("function", WITH_LABELS)
def test_a_gradient_is_no_hindrance(function):
    p = torch.tensor([[0.1, 0.9]], requires_grad=True)
    labels = torch.tensor([1])
    assert_same(function(Categorical(p), labels), function(Categorical(p.detach()), labels))


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (torch.tensor([1, 2]), r"known must be a tensor of floating point numbers, got int64 \(2,\)"),
        ([0.1, 0.2], "known must be a tensor of floating point numbers, got list"),
        (torch.empty(0), r"known must have one value or more, got float32 \(0,\)"),
        (torch.tensor([0.0, float("nan")]), "known must be finite, got NaN or infinity"),
        (torch.tensor([float("-inf")]), "known must be finite, got NaN or infinity"),
    ],
)
def test_bad_scores_are_refused(scores, message):
    with pytest.raises(InputError, match=message):
        inputs.require_scores("known", scores)


def test_scores_become_flat_float64():
    scores = inputs.require_scores("x", torch.tensor([[0.5], [0.25]], requires_grad=True))
    assert scores.dtype == torch.float64
    assert not scores.requires_grad
    assert scores.tolist() == [0.5, 0.25]


@pytest.mark.parametrize(
    "correct", [torch.tensor([1, 0]), torch.tensor([True]), torch.tensor([[True], [False]]), [True, False]]
)
def test_bad_correctness_is_refused(correct):
    with pytest.raises(InputError, match=r"correct must be a bool tensor of shape \(2,\), got "):
        inputs.require_correct(correct, torch.tensor([0.1, 0.2]))


def test_the_default_device_of_others_changes_nothing():
    prediction, labels = random_prediction(20, 3, seed=0), random_labels(20, 3, seed=1)
    uncertainty, correct = prediction.uncertainty, prediction.labels == labels

    def numbers():
        curve = metrics.accuracy_against_threshold(prediction, labels)
        return (
            metrics.expected_calibration_error(prediction, labels),
            metrics.excess_area(uncertainty, correct),
            curve.coverage.tolist(),
            metrics.entropy_cdf(prediction).share.tolist(),
        )

    expected = numbers()
    with torch.device("meta"):
        assert numbers() == expected
