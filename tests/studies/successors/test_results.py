import pytest
from tests.studies.successors.made import EMPTY, result, results_of

from nescio.studies.successors._results import OWN, PLAIN, POSTHOC, TEMPERATURE, SuccessorResults, ood_pairs
from nescio.studies.successors._sets import SETS


def test_numbers_by_variant():
    results = results_of(
        [
            result("edl", seed=0, auroc=0.8, nll=0.3, posthoc={"auroc": 0.9}, temperature={"nll": 0.25}),
            result("edl", seed=1, auroc=0.7, nll=0.5),
        ]
    )
    assert results.seeds("letter", "edl", PLAIN, "scores", "nll") == [0.3, 0.5]
    assert results.score("letter", "edl", PLAIN, "nll") == pytest.approx(0.4)
    assert results.score("letter", "edl", TEMPERATURE, "nll") == 0.25
    assert results.auroc("letter", "edl", POSTHOC, "letter U to Z") == 0.9
    assert results.has("letter", "edl", POSTHOC)
    assert not results.has("letter", "red")
    assert results.score("letter", "red", PLAIN, "nll") is None
    assert results.measured_sets() == ["letter"]
    assert EMPTY.measured_sets() == []


def test_numbers_by_seed():
    made = [result("edl", seed=2, nll=0.5), result("edl", nll=0.3, posthoc={"nll": 0.2}, temperature={})]
    results = results_of(made)
    assert results.by_seed("letter", "edl", PLAIN, "scores", "nll") == {0: 0.3, 2: 0.5}
    assert results.by_seed("letter", "edl", POSTHOC, "scores", "nll") == {0: 0.2}
    assert results.by_seed("letter", "red", PLAIN, "scores", "nll") == {}


def test_the_own_score_is_that_of_the_arm():
    results = results_of([result("softmax", auroc=0.8), result("dropout", auroc=0.7)])
    (found,) = results.results[:1]
    found.numbers["plain"]["ood"]["letter U to Z"]["by"]["max_probability"] = {"auroc": 0.85}
    assert results.detections("letter", "softmax", PLAIN, "letter U to Z", OWN) == [0.85]
    assert results.detections("letter", "softmax", PLAIN, "letter U to Z", "uncertainty") == [0.8]
    assert results.auroc("letter", "dropout", PLAIN, "letter U to Z") == 0.7


def test_every_ood_set():
    pairs = ood_pairs()
    assert ("mnist", "notMNIST") in pairs
    assert len(pairs) == sum(len(each.ood) for each in SETS.values())


def test_a_folder_without_results(tmp_path):
    results = SuccessorResults.read(tmp_path)
    assert list(results.results) == []
    assert len(results.experiments) > 100
    more = SuccessorResults.read(tmp_path, seeds=4)
    assert {each.name for each in more.experiments} - {each.name for each in results.experiments} >= {
        "letter/edl-3",
        "mnist/softmax-3",
    }
    assert len(SuccessorResults.read(tmp_path, seeds=1).experiments) == len(results.experiments)
