import dataclasses

import pytest
from tests.studies.sensoy2018.small import DIGITS, one

from nescio.encoders import LeNetSpec
from nescio.errors import InputError
from nescio.losses import EvidentialLoss
from nescio.methods import METHODS, make_method
from nescio.studies.sensoy2018 import experiments
from nescio.studies.sensoy2018.experiments import (
    COMPARED,
    NEEDS,
    PRESETS,
    VARIANTS,
    Changes,
    Experiment,
    plan,
)


def test_every_method_of_the_paper_is_compared_and_edl_twice():
    assert [VARIANTS[name].method for name in COMPARED] == [*METHODS, "edl"]
    for preset in PRESETS:
        compared = {each.variant.name for each in plan(preset) if each.study.name != "deaths"}
        assert set(COMPARED) <= compared


@pytest.mark.parametrize("preset", PRESETS)
def test_every_experiment_can_be_made(preset):
    for experiment in plan(preset):
        assert experiment.method.name == experiment.variant.method
        assert experiment.training.seed == experiment.seed
        assert experiment.description()["network"]["dropout"] == experiment.network.dropout
        asked = {**experiment.changes.measured, **experiment.changes.attacked}
        assert dataclasses.replace(experiment.method, **asked).name == experiment.variant.method


@pytest.mark.parametrize("preset", PRESETS)
def test_the_paper_s_edl_has_the_paper_s_loss(preset):
    for experiment in plan(preset, methods=["edl-paper"]):
        ours, paper = experiment.method.loss_for(10), EvidentialLoss.paper(10)
        assert ours.extra_repr() == paper.extra_repr()
        assert experiment.method.output_bias > 0
        assert experiment.network.dropout == 0.5


def test_networks_are_those_of_the_paper():
    (mnist,) = plan("paper", seeds=1, sets=["mnist"], methods=["edl"])
    (cifar5,) = plan("paper", seeds=1, sets=["cifar5"], methods=["edl"])
    assert (mnist.network.filters, mnist.network.hidden) == ((20, 50), 500)
    assert (cifar5.network.filters, cifar5.network.hidden) == ((192, 192), 1000)


def test_seeds():
    mnist = plan("paper", sets=["mnist"])
    assert sum(each.variant.name == "l2" for each in mnist) == 3
    assert sum(each.variant.name == "edl" for each in mnist) == 3
    assert sum(each.variant.name == "mnfg" for each in mnist) == 1
    two = plan("paper", seeds=2, sets=["mnist"])
    assert {sum(each.variant.name == name for each in two) for name in COMPARED} == {2}
    assert len(plan("paper", seeds=2, sets=["deaths"])) == 2 * experiments.DEATH_SEEDS


def test_names_tell_experiments_apart():
    for preset in PRESETS:
        names = [each.name for each in plan(preset)]
        assert len(names) == len(set(names))


def test_only_what_is_needed_is_measured():
    wanted = plan("paper", only=["figure1"])
    assert {each.parts for each in wanted} == {("rotation",)}
    assert {each.variant.name for each in wanted} == {"l2", "edl", "edl-paper"}
    assert {each.study.name for each in wanted} == {"mnist"}
    assert {each.study.name for each in plan("paper", only=["figure5"])} == {"cifar5"}
    assert {each.study.name for each in plan("quick", only=["deaths"])} == {"deaths"}
    both = plan("paper", only=["table1", "figure3"], methods=["mnfg"], sets=["mnist"])
    assert [each.parts for each in both] == [("known", "strangers")]


def test_together_the_needs_are_everything_but_the_turning_one_of_the_rest():
    for preset in PRESETS:
        whole = {(each.name, part) for each in plan(preset) for part in each.parts}
        needed = {(each.name, part) for each in plan(preset, only=list(NEEDS)) for part in each.parts}
        assert needed <= whole
        assert {part for _, part in whole - needed} == {"rotation"}
        assert {name for name, part in needed if part == "rotation"} <= {
            each.name for each in plan(preset, methods=["l2", "edl", "edl-paper"])
        }


def test_differences_are_added_up_and_the_study_has_the_last_word():
    first, second = Changes({"a": 1, "b": 2}, {"c": 3}), Changes({"b": 4}, training={"d": 5})
    assert first.then(second) == Changes({"a": 1, "b": 4}, {"c": 3}, {"d": 5})
    paper = one("edl-paper")
    assert (paper.training.epochs, paper.training.batch_size) == (2, 64)
    assert paper.training.schedule == "constant"


def test_the_source_of_transferred_attacks_is_l2_with_the_same_seed():
    source = one("edl", 1).source
    assert source.name == "digits/l2-1"
    assert source.description() == one("l2", 1).description()
    assert "transfer" not in one("l2").parts


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"preset": "slow"}, "preset must be one of quick, paper, got 'slow'"),
        ({"preset": "quick", "seeds": 0}, "seeds must be 1 or more, got 0"),
        ({"preset": "quick", "sets": ["mnist"]}, "sets must be of digits, deaths, got 'mnist'"),
        ({"preset": "quick", "methods": ["mnf"]}, "methods must be of l2, dropout, .* got 'mnf'"),
        ({"preset": "quick", "only": ["figure6"]}, "only must be of table1, .* got 'figure6'"),
    ],
)
def test_bad_names(given, message):
    with pytest.raises(InputError, match=message):
        plan(**given)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (Changes({"evidnce": "relu"}), "settings do not fit the method edl"),
        (Changes(network={"filter": 3}), "settings do not fit LeNetSpec"),
        (Changes(training={"epoch": 3}), "settings do not fit TrainingSettings"),
    ],
)
def test_a_difference_that_does_not_fit(changes, message):
    variant = dataclasses.replace(VARIANTS["edl"], changes=changes)
    with pytest.raises(InputError, match=message):
        Experiment(variant, DIGITS, 0).description()


def test_defaults_of_the_library_are_the_base():
    assert one("edl").method == make_method("edl")
    assert plan("paper", seeds=1, sets=["mnist"], methods=["edl"])[0].network == LeNetSpec()


def test_samples_are_those_used_not_those_trained_with():
    assert one("dropout").samples == (4, 2)
    assert one("edl").samples is None
    usual = dataclasses.replace(DIGITS, changes={})
    assert dataclasses.replace(one("dropout"), study=usual).samples == (50, 50)


def test_a_plan_without_anything_is_an_error():
    with pytest.raises(InputError, match="the preset quick has nothing for figure5 together"):
        plan("quick", only=["figure5"])
