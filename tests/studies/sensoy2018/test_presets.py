from dataclasses import replace
from pathlib import Path

import pytest
from tests.studies.small import DIGITS, measurement, one

from nescio.errors import InputError
from nescio.studies.runner import missing, store_in
from nescio.studies.sensoy2018 import presets
from nescio.studies.sensoy2018._arms import COMPARED
from nescio.studies.sensoy2018._overrides import Overrides
from nescio.studies.sensoy2018.presets import (
    DEAD_CLASS_SEEDS,
    NEEDS,
    PRESETS,
    Entry,
    plan,
    study_of,
)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_experiment_can_be_made(preset):
    for experiment in study_of(preset, seeds=1).experiments:
        training = experiment.plan
        assert training.build_method().name == training.method["name"]
        assert training.build_encoder().dropout == training.encoder["dropout"]
        assert training.settings().seed == training.seed
        names = [each.name for each in experiment.measurements]
        assert names[0] == "training"
        assert len(names) == len(set(names))


@pytest.mark.parametrize("preset", PRESETS)
def test_every_arm_is_compared_on_mnist(preset):
    first = PRESETS[preset][0]
    assert set(COMPARED) <= {entry.arm for entry in first.entries}


def test_networks_are_those_of_the_paper():
    (mnist,) = plan("paper", seeds=1, sets=["mnist"], methods=["edl"])
    (cifar5,) = plan("paper", seeds=1, sets=["cifar5"], methods=["edl"])
    assert (mnist.plan.encoder["filters"], mnist.plan.encoder["hidden"]) == ((20, 50), 500)
    assert (cifar5.plan.encoder["filters"], cifar5.plan.encoder["hidden"]) == ((192, 192), 1000)


def test_seeds():
    mnist = plan("paper", sets=["mnist"])
    assert sum(each.arm == "l2" for each in mnist) == 3
    assert sum(each.arm == "edl" for each in mnist) == 3
    assert sum(each.arm == "mnfg" for each in mnist) == 1
    two = plan("paper", seeds=2, sets=["mnist"])
    assert {sum(each.arm == name for each in two) for name in COMPARED} == {2}
    relu = plan("paper", seeds=2, sets=["dead_classes"], methods=["edl-relu"])
    assert len(relu) == DEAD_CLASS_SEEDS


def test_names_tell_experiments_apart():
    for preset in PRESETS:
        names = [each.name for each in study_of(preset, seeds=2).experiments]
        assert len(names) == len(set(names))


def test_only_what_is_needed_is_measured():
    wanted = plan("quick", only=["figure1"])
    assert {tuple(m.name for m in each.measurements) for each in wanted} == {("rotation",)}
    assert {each.arm for each in wanted} == {"l2", "edl", "edl-printed", "edl-notebook"}
    assert {each.comparison for each in wanted} == {"digits"}
    assert {each.comparison for each in plan("paper", only=["figure5"])} == {"cifar5"}
    both = plan("paper", only=["table1", "figure3"], methods=["mnfg"], sets=["mnist"])
    assert [[m.name for m in each.measurements] for each in both] == [["training", "known", "ood"]]


def asked(experiments):
    found = set()
    for each in experiments:
        for one_measurement in each.measurements:
            found.add((each.name, one_measurement.name))
    return found


def test_together_the_needs_are_everything_but_the_turning_one_of_the_rest():
    for preset in PRESETS:
        left = asked(plan(preset)) - asked(plan(preset, only=list(NEEDS)))
        assert {name for _, name in left} == {"rotation"}


def with_entry(entry, comparison=DIGITS):
    return replace(comparison, entries=(Entry("l2"), entry))


def test_an_entry_has_the_last_word():
    overrides = Overrides(training={"epochs": 9}, evaluation={"attacked": 7, "fresh_draws": False})
    (other,) = with_entry(Entry("dropout", overrides=overrides)).experiments()[1:]
    assert other.plan.training["epochs"] == 9
    assert (measurement(other, "pgd").images, measurement(other, "pgd").fresh_draws) == (7, False)
    plain = with_entry(Entry("dropout", seeds=2)).experiments()[1:]
    assert len(plain) == 2
    assert (measurement(plain[0], "pgd").images, measurement(plain[0], "pgd").fresh_draws) == (20, True)


def test_the_source_of_an_arm_s_attacks_is_l2_as_it_was_for_that_arm():
    overrides = Overrides(source=Overrides(training={"epochs": 9}))
    (other,) = with_entry(Entry("edl", overrides=overrides)).experiments()[1:]
    assert measurement(other, "transfer").source.training["epochs"] == 9
    assert measurement(one("edl", 1), "transfer").source == one("l2", 1).plan
    assert "transfer" not in [each.name for each in one("l2").measurements]


def test_samples_are_those_of_methods_that_draw():
    dropout = one("dropout")
    assert measurement(dropout, "known").samples == 4
    assert measurement(dropout, "fgsm").samples == 2
    assert measurement(one("edl"), "known").samples is None
    plain = replace(DIGITS, entries=(Entry("l2"), Entry("dropout")))
    assert measurement(one("dropout", comparison=plain), "pgd").samples == 50


def test_fresh_draws_are_no_setting_of_what_does_not_draw():
    assert measurement(one("dropout"), "pgd").fresh_draws is True
    assert measurement(one("edl"), "pgd").fresh_draws is False


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"preset": "slow"}, "preset must be one of quick, paper, got 'slow'"),
        ({"preset": "quick", "seeds": 0}, "seeds must be a whole number from 1 on, got 0"),
        ({"preset": "quick", "sets": ["mnist"]}, "sets must be of digits, dead_classes, got 'mnist'"),
        ({"preset": "quick", "methods": ["mnf"]}, "methods must be of l2, dropout, .* got 'mnf'"),
        ({"preset": "quick", "only": ["figure6"]}, "only must be of table1, .* got 'figure6'"),
        ({"preset": "quick", "only": ["figure5"]}, "the preset quick has nothing for figure5 together"),
    ],
)
def test_bad_names(given, message):
    with pytest.raises(InputError, match=message):
        plan(**given)


def test_what_is_committed_is_not_planned_to_be_computed_again():
    """`nescio reproduce --preset paper` computes nothing then, and it uses every record that lies there."""
    folder = Path(__file__).parents[3] / "results" / "paper"
    needed = set()
    for experiment in plan("paper"):
        assert missing(experiment, folder) == [], experiment.name
        for each in experiment.measurements:
            needed.add(store_in(folder).path(experiment.plan, each))
    assert set(store_in(folder).paths()) == needed


def test_the_presets_are_made_of_comparisons_that_play_the_paper_s_parts():
    assert [each.name for each in presets.PAPER] == ["mnist", "cifar5", "dead_classes"]
    assert [each.name for each in presets.QUICK] == ["digits", "dead_classes"]
