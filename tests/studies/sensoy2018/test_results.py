import pytest
from tests.studies.sensoy2018.made import EMPTY, result, results_of

from nescio.errors import InputError
from nescio.metrics import wilson_interval
from nescio.studies.sensoy2018._results import PaperResults


@pytest.mark.usefixtures("_small")
def test_read(folder):
    found = PaperResults.read(folder, "quick")
    assert found.comparisons == ["digits"]
    assert (found.comparison("mnist"), found.comparison("cifar5")) == ("digits", None)
    assert len(found.of("digits", "edl")) == 3
    assert len(found.experiments) == len(found.results)


@pytest.mark.usefixtures("_small")
def test_more_seeds_than_the_preset_has_are_expected_where_asked_for(folder):
    found = PaperResults.read(folder, "quick", seeds=3)
    assert sum(each.arm == "l2" for each in found.experiments) == 3
    assert sum(each.arm == "edl" for each in found.experiments) == 3
    assert len(found.of("digits", "l2")) == 2


def test_results_of_another_preset_are_not_taken(folder):
    assert PaperResults.read(folder, "paper").results == []


def test_no_such_preset(tmp_path):
    with pytest.raises(InputError, match="preset must be one of"):
        PaperResults.read(tmp_path, "slow")


def test_which_arms_there_should_be():
    assert EMPTY.listed("cifar5")[-2:] == ["edl", "edl-printed"]
    assert EMPTY.listed("mnist")[-1] == "edl-notebook"
    assert results_of([], "quick").listed(None) == []


def test_a_share_has_an_interval_over_its_images():
    known = {"images": 50, "scores": {"accuracy": 0.9}}
    ood = {"images": {"known": 20, "ood": 30}, "scores": {"entropy_fpr95": 0.2}}
    made = results_of([result("edl", known=known, ood=ood)])
    assert made.share("mnist", "edl", "known", "scores", "accuracy").interval == wilson_interval(0.9, 50)
    assert made.share("mnist", "edl", "ood", "scores", "entropy_fpr95").interval == wilson_interval(0.2, 20)
    assert made.average("mnist", "edl", "known", "scores", "accuracy").interval is None
    assert made.share("mnist", "l2", "known", "scores", "accuracy") is None
    assert made.images("mnist", "l2", "known") is None


def test_settings_over_the_arms(results):
    assert results.setting("digits", "fgsm", "images") == [20]
    assert results.setting("digits", "pgd", "samples") == [None, 2]
    assert EMPTY.setting("mnist", "fgsm", "images") == []
