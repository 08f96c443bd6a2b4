import math

import pytest
import torch
from hypothesis import given, settings
from tests.metrics import naive
from tests.metrics.naive import opinions, predicted, random_opinion, random_prediction

from nescio import metrics as ev
from nescio.errors import InputError
from nescio.opinions.categorical import Categorical
from nescio.opinions.opinion import Opinion

OF_OPINIONS = [
    "entropy",
    "max_probability",
    "uncertainty",
    "mutual_information",
    "expected_entropy",
    "differential_entropy",
    "dissonance",
]


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


# ------------------------------------------------------------------------------------------------- detection


def test_detection_by_hand():
    # Pairs won: 0.5 beats 0.1 and 0.4, 0.9 beats all three. Precision falls 1, 2/3 at recall 1/2, 1.
    found = ev.detection(known=tensor(0.1, 0.4, 0.6), ood=tensor(0.5, 0.9))
    assert found.auroc == pytest.approx(5 / 6)
    assert found.aupr == pytest.approx(1 / 2 * 1 + 1 / 2 * 2 / 3)
    assert found.fpr95 == pytest.approx(1 / 3)


def test_detection_of_a_perfect_and_of_the_worst_score():
    low, high = tensor(0.1, 0.2), tensor(0.8, 0.9)
    assert ev.detection(low, high) == ev.Detection(auroc=1.0, aupr=1.0, fpr95=0.0)
    worst = ev.detection(high, low)
    assert (worst.auroc, worst.fpr95) == (0.0, 1.0)
    assert worst.aupr == pytest.approx(1 / 2 * 1 / 3 + 1 / 2 * 2 / 4)


def test_detection_where_all_are_tied():
    found = ev.detection(torch.zeros(6), torch.zeros(2))
    assert (found.auroc, found.aupr, found.fpr95) == (0.5, 0.25, 1.0)


def test_detection_of_one_and_one():
    assert ev.detection(tensor(0.0), tensor(1.0)) == ev.Detection(1.0, 1.0, 0.0)


@given(naive.score_pairs())
@settings(deadline=None)
def test_detection_is_the_loop(pair):
    known, ood = (part.tolist() for part in pair)
    found = ev.detection(*pair)
    assert found.auroc == pytest.approx(naive.naive_auroc(known, ood), abs=1e-12)
    assert found.aupr == pytest.approx(naive.naive_average_precision(known, ood), abs=1e-12)
    assert found.fpr95 == pytest.approx(naive.naive_fpr95(known, ood), abs=1e-12)


@given(naive.score_pairs())
@settings(deadline=None)
def test_detection_when_swapped_and_when_turned_round(pair):
    known, ood = pair
    auroc = ev.detection(known, ood).auroc
    assert ev.detection(ood, known).auroc == pytest.approx(1 - auroc, abs=1e-12)
    assert ev.detection(-known, -ood).auroc == pytest.approx(1 - auroc, abs=1e-12)
    assert 0 <= auroc <= 1


@given(naive.score_pairs())
@settings(deadline=None)
def test_detection_sees_the_ranking_alone(pair):
    known, ood = pair
    flipped = ev.detection((known / 2).exp().flip(0), (ood / 2).exp().flip(0))
    expected = ev.detection(known, ood)
    assert flipped.auroc == pytest.approx(expected.auroc, abs=1e-12)
    assert flipped.aupr == pytest.approx(expected.aupr, abs=1e-12)
    assert flipped.fpr95 == pytest.approx(expected.fpr95, abs=1e-12)


@pytest.mark.parametrize(
    ("count", "missed"), [(1, 0), (19, 0), (20, 1), (39, 1), (40, 2), (100, 5), (1000, 50)]
)
def test_one_in_twenty_of_the_ood_may_be_missed(count, missed):
    ood = torch.arange(count).double()
    known = torch.arange(count).double()  # of which those at or above the threshold, and no others, alarm
    assert ev.detection(known, ood).fpr95 == pytest.approx(1 - missed / count)


def test_detection_refuses_bad_scores():
    with pytest.raises(InputError, match="known must have one value or more"):
        ev.detection(torch.empty(0), torch.rand(3))
    with pytest.raises(InputError, match="ood must be finite"):
        ev.detection(torch.rand(3), tensor(math.nan))


# --------------------------------------------------------------------------------------------------- measures


def test_measures_of_a_prediction_by_hand():
    found = ev.measures(predicted([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]]))
    assert list(found) == ["entropy", "max_probability"]
    torch.testing.assert_close(found["entropy"], tensor(1.5 * math.log(2), 0.0))
    torch.testing.assert_close(found["max_probability"], tensor(0.5, 0.0))


def test_measures_of_an_opinion_are_its_own():
    opinion = random_opinion(20, 4, seed=12)
    found = ev.measures(opinion)
    assert list(found) == OF_OPINIONS
    torch.testing.assert_close(found.pop("max_probability"), 1 - opinion.probabilities.amax(-1))
    torch.testing.assert_close(found.pop("uncertainty"), 4 / (opinion.evidence + 1).sum(-1))
    for name, value in found.items():
        torch.testing.assert_close(value, getattr(opinion, name)())


@pytest.mark.parametrize("name", [name for name in OF_OPINIONS if name != "dissonance"])
def test_a_measure_is_higher_for_ood_inputs(name):
    sure, none = opinions([[50.0, 0.0, 0.0]]), opinions([[0.0, 0.0, 0.0]])
    assert ev.measures(none)[name] > ev.measures(sure)[name]


def test_dissonance_is_higher_for_conflict():
    sure, conflict = opinions([[50.0, 0.0, 0.0]]), opinions([[50.0, 50.0, 0.0]])
    assert ev.measures(conflict)["dissonance"] > ev.measures(sure)["dissonance"]


def test_detection_by_measure_is_detection_of_each():
    known, ood = random_opinion(40, 3, seed=13, scale=200.0), random_opinion(30, 3, seed=14, scale=5.0)
    found = ev.detection_by_measure(known, ood)
    assert list(found) == OF_OPINIONS
    assert found["mutual_information"] == ev.detection(known.mutual_information(), ood.mutual_information())
    for name, value in found.items():
        expected = naive.naive_auroc(ev.measures(known)[name].tolist(), ev.measures(ood)[name].tolist())
        assert value.auroc == pytest.approx(expected, abs=1e-12)
    assert found["uncertainty"].auroc > 0.6


def test_detection_by_measure_of_ood_inputs_without_evidence_is_perfect():
    found = ev.detection_by_measure(opinions([[90.0, 1.0], [2.0, 70.0]]), opinions([[0.0, 0.0]]))
    assert {name for name, value in found.items() if value.auroc == 1} == set(OF_OPINIONS) - {"dissonance"}


@pytest.mark.parametrize(
    ("known", "ood"),
    [
        (predicted([[0.5, 0.5]]), opinions([[1.0, 0.0]])),
        (opinions([[1.0, 0.0]]), predicted([[0.5, 0.5]])),
        (opinions([[1.0, 0.0]]), opinions([[1.0, 0.0, 0.0]])),
    ],
)
def test_detection_by_measure_refuses_two_kinds(known, ood):
    with pytest.raises(InputError, match=r"ood must be of the kind of known, .* classes.*, got .* classes"):
        ev.detection_by_measure(known, ood)


def test_detection_by_measure_names_which_is_bad():
    with pytest.raises(InputError, match="ood must have one sample or more"):
        ev.detection_by_measure(predicted([[0.5, 0.5]]), Categorical(torch.empty(0, 2)))


# ------------------------------------------------------------------------------------------------ entropy CDF


def test_cdf_by_hand():
    # Entropies 0, ln 2, ln 2 (two of four classes), ln 4; at 0, 1/2 and all of ln 4 = 2 ln 2.
    prediction = predicted([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5], [0.25] * 4])
    found = ev.entropy_cdf(prediction, points=5)
    torch.testing.assert_close(found.entropy, torch.arange(5).double() / 4 * math.log(4))
    assert found.share.tolist() == [0.25, 0.25, 0.75, 0.75, 1.0]


@pytest.mark.parametrize("points", [2, 10, 101])
@pytest.mark.parametrize("made", [random_prediction, random_opinion])
def test_cdf_is_the_loop(made, points):
    prediction = made(50, 5, seed=15)
    found = ev.entropy_cdf(prediction, points)
    entropies = [naive.naive_entropy(row) for row in prediction.probabilities.tolist()]
    assert len(found.entropy) == len(found.share) == points
    for at, share in zip(found.entropy.tolist(), found.share.tolist(), strict=True):
        assert share == pytest.approx(sum(entropy <= at + 1e-12 for entropy in entropies) / 50)


@given(naive.evidence_batches())
@settings(deadline=None)
def test_cdf_rises_from_zero_or_more_to_one(batch):
    found = ev.entropy_cdf(batch[0])
    assert len(found.share) == 101
    assert found.entropy[0] == 0
    assert found.entropy[-1].item() == math.log(batch[0].num_classes)
    assert found.share[0] >= 0
    assert (found.share.diff() >= 0).all()
    assert found.share[-1] == 1


@pytest.mark.parametrize("num_classes", range(2, 60))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cdf_of_total_ignorance_ends_in_one(num_classes, dtype):
    even = torch.full((3, num_classes), 1 / num_classes, dtype=dtype)
    assert ev.entropy_cdf(Categorical(even)).share[-1] == 1
    assert ev.entropy_cdf(Opinion(torch.zeros_like(even))).share[-1] == 1


def test_cdf_of_one_sure_sample_is_one_throughout():
    assert ev.entropy_cdf(predicted([[0.0, 1.0]]), points=3).share.tolist() == [1.0] * 3


@pytest.mark.parametrize("points", [1, 0, 2.5])
def test_cdf_needs_two_points(points):
    with pytest.raises(InputError, match=f"points must be a whole number from 2 on, got {points}"):
        ev.entropy_cdf(predicted([[0.5, 0.5]]), points)
