import math
import statistics

import pytest
import torch
from hypothesis import given, settings
from tests.metrics import naive
from tests.metrics.naive import opinions, predicted, random_labels, random_opinion, random_prediction

from nescio import metrics as ev

KEYS = [
    "accuracy",
    "raw_accuracy",
    "answered_accuracy",
    "answered",
    "nll",
    "brier",
    "ece",
    "aurc",
    "mean_uncertainty",
    "mean_entropy",
]


def test_summary_by_hand():
    # K = 2: evidence (6, 0) has p = (7/8, 1/8), u = 1/4; none has p = (1/2, 1/2), u = 1 and is rejected.
    found = ev.summary(opinions([[6.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 0]))
    assert list(found) == KEYS
    entropy = (-7 / 8 * math.log2(7 / 8) + 3 / 8, 1.0)
    expected = {
        "accuracy": 0.5,
        "raw_accuracy": 1.0,
        "answered_accuracy": 1.0,
        "answered": 0.5,
        "nll": (math.log(8 / 7) + math.log(2)) / 2,
        "brier": (2 / 64 + 1 / 2) / 2,
        "ece": (1 / 8 + 1 / 2) / 2,
        "aurc": (0 + 1 / 2) / 2,
        "mean_uncertainty": 5 / 8,
        "mean_entropy": sum(entropy) / 2,
    }
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("made", [random_prediction, random_opinion])
def test_summary_is_made_of_the_functions(made):
    prediction, labels = made(60, 4, 16), random_labels(60, 4, 17)
    right = (prediction.labels == labels) & ~prediction.is_vacuous
    entropies = [naive.naive_entropy(row) / math.log(4) for row in prediction.probabilities.tolist()]
    found = ev.summary(prediction, labels)
    assert found["aurc"] == pytest.approx(naive.naive_aurc(prediction.uncertainty.tolist(), right.tolist()))
    assert found["mean_uncertainty"] == pytest.approx(statistics.fmean(prediction.uncertainty.tolist()))
    assert found["mean_entropy"] == pytest.approx(statistics.fmean(entropies))
    assert found["ece"] == ev.expected_calibration_error(prediction, labels)
    assert found["brier"] == ev.brier_score(prediction, labels)
    assert found["nll"] == ev.negative_log_likelihood(prediction, labels)


@given(naive.evidence_batches())
@settings(deadline=None)
def test_summary_is_finite_floats_within_their_bounds(batch):
    found = ev.summary(*batch)
    assert all(type(value) is float for value in found.values())
    if found["answered"] == 0:
        assert math.isnan(found.pop("answered_accuracy"))
    assert all(math.isfinite(value) for value in found.values())
    assert all(-1e-9 <= found[name] <= 1 + 1e-9 for name in found if name not in ("nll", "brier"))
    assert found["accuracy"] <= found["raw_accuracy"]
    assert 0 <= found["brier"] <= 2


def test_detection_summary_of_a_prediction():
    known, ood = predicted([[1.0, 0.0], [0.75, 0.25]]), predicted([[0.5, 0.5], [0.5, 0.5], [0.0, 1.0]])
    found = ev.detection_summary(known, ood)
    # Pairs of entropies (0, mid) against (1, 1, 0): won 2 + 2, tied 1, lost 1.
    expected_auroc = 4.5 / 6
    assert found["entropy_auroc"] == pytest.approx(expected_auroc)
    assert found["max_probability_auroc"] == pytest.approx(expected_auroc)
    assert found["entropy_fpr95"] == 1
    assert found["ood_mean_entropy"] == pytest.approx(2 / 3)
    assert found["ood_median_entropy"] == pytest.approx(1)
    measures = ("entropy", "max_probability")
    names = [f"{measure}_{figure}" for measure in measures for figure in ("auroc", "aupr", "fpr95")]
    assert list(found) == [*names, "ood_mean_entropy", "ood_median_entropy"]


def test_detection_summary_of_opinions_is_detection_by_measure():
    known, ood = random_opinion(30, 3, seed=18), random_opinion(25, 3, seed=19)
    found, by_measure = ev.detection_summary(known, ood), ev.detection_by_measure(known, ood)
    assert len(found) == 3 * 7 + 2
    for name, value in by_measure.items():
        assert (found[f"{name}_auroc"], found[f"{name}_aupr"], found[f"{name}_fpr95"]) == (
            value.auroc,
            value.aupr,
            value.fpr95,
        )
    assert all(type(value) is float for value in found.values())


@pytest.mark.parametrize("count", [1, 4, 5])
def test_the_median_of_an_even_count_is_the_middle(count):
    ood = random_prediction(count, 3, seed=20)
    entropies = [naive.naive_entropy(row) / math.log(3) for row in ood.probabilities.tolist()]
    found = ev.detection_summary(ood, ood)["ood_median_entropy"]
    assert found == pytest.approx(statistics.median(entropies), rel=1e-12)
