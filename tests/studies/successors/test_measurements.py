import pytest
import torch
from sklearn.metrics import roc_auc_score
from tests.studies.successors.small import FEATURES, PIXELS

from nescio.errors import InputError
from nescio.posthoc.scores import energy_score
from nescio.studies.plan import DataPart
from nescio.studies.runner import train
from nescio.studies.successors._measurements import AsTrained, ComparisonScores, scores_of
from nescio.studies.successors._results import OWN, PLAIN, POSTHOC, TEMPERATURE


def experiment_of(study_set, arm):
    (found,) = [each for each in study_set.experiments() if each.arm == arm]
    return found


@pytest.fixture
def softmax(folder):
    return train(experiment_of(PIXELS, "softmax").plan, folder)


def test_scores_are_those_of_what_the_model_says(softmax, results):
    test = PIXELS.known.load("test")
    prediction = softmax.predict(test.inputs, generator=torch.Generator().manual_seed(0))
    right = prediction.labels == softmax.labels_of(test)
    assert results.score("pixels", "softmax", PLAIN, "raw_accuracy") == pytest.approx(
        float(right.double().mean())
    )
    ood = softmax.predict(
        PIXELS.ood["8 and 9"].load("test").inputs, generator=torch.Generator().manual_seed(0)
    )
    doubt = torch.cat([1 - prediction.probabilities.amax(1), 1 - ood.probabilities.amax(1)])
    truth = torch.cat([torch.zeros(len(prediction)), torch.ones(len(ood))])
    expected = roc_auc_score(truth, doubt)
    assert results.auroc("pixels", "softmax", PLAIN, "8 and 9", OWN) == pytest.approx(expected, abs=1e-6)


def test_what_a_prediction_costs(results):
    (numbers,) = results.numbers("pixels", "edl", "plain")
    assert (numbers["passes"], numbers["trainings"]) == (1, 1)
    assert 0 <= numbers["scores"]["augrc"] <= 0.5


@pytest.mark.parametrize(
    ("study_set", "arm"), [("pixels", "softmax"), ("pixels", "edl"), ("features", "edl")]
)
def test_temperature_and_trust_are_fitted_and_change_no_label(results, study_set, arm):
    plain = results.score(study_set, arm, PLAIN, "raw_accuracy")
    for variant in (TEMPERATURE, POSTHOC):
        assert results.score(study_set, arm, variant, "raw_accuracy") == plain
    (numbers,) = results.numbers(study_set, arm, "posthoc")
    assert set(numbers["temperature"]["fitted"]["done"]) == {"temperature"}
    assert set(numbers["all"]["fitted"]["done"]) == {"temperature", "trust"}
    before = results.auroc(study_set, arm, PLAIN, "8 and 9", "uncertainty")
    after = results.auroc(study_set, arm, POSTHOC, "8 and 9", "uncertainty")
    assert before != after


def test_the_scores_of_the_literature(softmax, results):
    (numbers,) = results.numbers("pixels", "softmax", "scores")
    found = numbers["ood"]["8 and 9"]
    assert set(found) == {"max_probability", "entropy", "max_logit", "energy", "knn", "mahalanobis", "vim"}
    module = softmax.module.eval()
    doubts = []
    for part in (PIXELS.known, PIXELS.ood["8 and 9"]):
        with torch.inference_mode():
            doubts.append(energy_score(module(softmax.preprocess(part.load("test").inputs))))
    truth = torch.cat([torch.zeros(len(doubts[0])), torch.ones(len(doubts[1]))])
    assert found["energy"]["auroc"] == pytest.approx(roc_auc_score(truth, torch.cat(doubts)), abs=1e-5)
    assert all(0 <= each["fpr95"] <= 1 for each in found.values())


def test_several_ood_sets(results):
    (numbers,) = results.numbers("features", "edl", "plain")
    assert set(numbers["ood"]) == {"8 and 9", "letters"}


def test_all_test_parts_are_looked_for():
    experiment = experiment_of(FEATURES, "edl")
    for measurement in experiment.measurements:
        assert measurement.data == {"digits": "test", "letters": "test"}
    scores = ComparisonScores(FEATURES.known, FEATURES.ood, 0, experiment.plan)
    assert scores.data == {"digits": "test", "letters": "test"}


def test_settings_say_what_was_asked():
    settings = AsTrained(PIXELS.known, PIXELS.ood, 3).settings()
    assert settings["known"] == {"data": "digits", "classes": list("01234567")}
    assert settings["ood"] == {"8 and 9": {"data": "digits", "classes": ["8", "9"]}}
    assert settings["seed"] == 3


def test_texts_are_measured_as_features(softmax, monkeypatch):
    from nescio.data import Texts

    texts = Texts(("a", "b"), torch.tensor([0, 1]), ("0", "1"), "two texts")
    monkeypatch.setattr(DataPart, "load", lambda self, split: texts)
    with pytest.raises(InputError, match="texts are measured as features of an encoder"):
        scores_of(softmax, PIXELS.known, {}, 0)
