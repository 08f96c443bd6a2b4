import pytest
import torch
from tests.reports.cases import corners, trained

from nescio.metrics import accuracy, wilson_interval
from nescio.opinions import Categorical, Opinion
from nescio.reports import _results as results


@pytest.fixture(scope="module")
def model():
    return trained(corners())


def measured(model, evidence, labels, ood=None):
    opinion = Opinion(torch.tensor(evidence))
    return results.measure(model, opinion, torch.tensor(labels), ood)


# Sure and right, sure and wrong, doubtful and right, doubtful and wrong, without any evidence.
EVIDENCE = [[90.0, 0, 0], [0, 80.0, 0], [0, 2.0, 0], [1.0, 0, 0], [0, 0, 0]]
LABELS = [0, 2, 1, 1, 2]


@pytest.fixture(scope="module")
def found(model):
    return measured(model, EVIDENCE, LABELS)


def test_the_figures_are_those_of_the_metrics(found):
    assert found.count == 5
    assert found.right.tolist() == [True, False, True, False, False]
    assert found.measures["accuracy"] == accuracy(found.prediction, found.labels) == 0.4
    assert found.interval == wilson_interval(0.4, 5)
    assert found.num_unanswered == 1
    assert found.has_evidence


def test_guessing_is_an_accuracy_whose_interval_holds_the_share_of_the_largest_class():
    labels = torch.tensor([0] * 60 + [1] * 40)
    low, _ = wilson_interval(0.7, 100)
    assert low < 0.61
    assert results.is_no_better_than_guessing(0.5, labels)
    assert results.is_no_better_than_guessing(0.69, labels)
    assert not results.is_no_better_than_guessing(0.75, labels)


def test_what_the_model_stands_by(found):
    assert found.accepted.tolist() == [True, True, False, False, False]
    assert found.accepted_accuracy == 0.5
    assert found.accepted_share == 0.4
    assert found.ood_accepted_share is None


def test_what_the_model_stands_by_of_out_of_distribution_inputs(model):
    ood = Opinion(torch.tensor([[90.0, 0, 0], [0, 2.0, 0], [0, 0, 0], [0, 0, 0.5]]))
    found = measured(model, EVIDENCE, LABELS, ood)
    assert found.ood_accepted.tolist() == [True, False, False, False]
    assert found.ood_accepted_share == 0.25


def test_nothing_to_stand_by(model):
    assert measured(model, [[0.0, 0, 0]], [0]).accepted_accuracy is None


def test_the_surest_mistake_comes_first_and_silence_is_none(found):
    assert found.surest_mistakes().tolist() == [1, 3]
    assert found.most_doubtful().tolist() == [4, 3, 2, 1, 0]


def test_no_more_than_a_dozen(model):
    many = measured(model, [[5.0, 1.0, 0]] * 40, [1] * 40)
    assert len(many.surest_mistakes()) == len(many.most_doubtful()) == 12


def test_confused_pairs_by_their_number(model):
    evidence = [[9.0, 0, 0]] * 3 + [[0, 9.0, 0]] * 2 + [[0, 0, 9.0]]
    pairs = measured(model, evidence, [1, 1, 1, 0, 0, 2]).confused_pairs()
    assert [(pair.truth, pair.answer, pair.count, pair.share) for pair in pairs] == [
        (1, 0, 3, 1),
        (0, 1, 2, 1),
    ]


def test_the_most_frequent_class_and_guessing(model, found):
    assert found.most_frequent == (1, 0.4)
    assert found.is_guessing
    good = measured(model, [[9.0, 0, 0], [0, 9.0, 0], [0, 0, 9.0]] * 20, [0, 1, 2] * 20)
    assert not good.is_guessing


@pytest.mark.parametrize(("coverage", "risk"), [(0.2, 0.0), (0.4, 0.5), (0.5, 1 / 3), (0.8, 0.5), (1.0, 0.6)])
def test_risk_by_coverage(found, coverage, risk):
    assert found.risk_at(coverage) == pytest.approx(risk)


def test_out_of_distribution(model):
    ood = Opinion(torch.zeros(4, 3))
    found = measured(model, [[9.0, 0, 0], [0, 9.0, 0]], [0, 1], ood)
    assert found.ood_measures["uncertainty_auroc"] == 1


def test_without_evidence(model):
    prediction = Categorical(torch.tensor([[0.6, 0.3, 0.1], [0.1, 0.1, 0.8]]))
    found = results.measure(model, prediction, torch.tensor([0, 0]), None)
    assert not found.has_evidence
    assert found.surest_mistakes().tolist() == [1]
