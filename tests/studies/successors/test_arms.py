import dataclasses

import torch

from nescio.methods import METHODS
from nescio.opinions.opinion import Opinion
from nescio.studies.successors._arms import ARMS, DEFAULT_EDL, UNCERTAINTY, label, labels
from nescio.studies.successors._measurements import WithPosthocOfOpinions
from nescio.studies.successors.experiments import study_of


def test_every_method_of_the_library_is_an_arm():
    compared = {arm.method["name"] for arm in ARMS.values()}
    ours = {name for name in METHODS if METHODS.get(name).__module__.startswith("nescio.")}
    assert compared == ours


def test_edl_stands_twice():
    default = ARMS["edl"].method
    paper = ARMS["edl-paper"].method
    assert (paper["risk"], paper["divergence_weight"]) == ("squared_error", 1.0)
    different = {name for name in default if default[name] != paper[name]}
    assert different == {"risk", "divergence_weight"}


def test_every_setting_is_written_out():
    """A default that moves must move nothing here.

    A setting that the library got later goes to LATER_METHOD, LATER_ENCODER or LATER_TRAINING in _arms.py,
    with the value that stands for what was done before: it is fixed then, and results stay where they are.
    """
    for experiment in study_of(seeds=1).experiments:
        plan = experiment.plan
        for part, written, built in (
            ("method", plan.method, plan.build_method()),
            ("encoder", plan.encoder, plan.build_encoder()),
            ("training", plan.training, plan.settings()),
        ):
            known = {*written, *plan.later[part]}
            settings = {each.name for each in dataclasses.fields(built)}
            assert settings <= known, (experiment.name, part)
            assert "auto" not in written.values(), (experiment.name, part)


def test_names_and_scores():
    assert len({label(name) for name in ARMS}) == len(ARMS)
    assert labels(["red", "i-edl"]) == "RED, I-EDL"
    for arm in ARMS.values():
        assert (arm.score == UNCERTAINTY) == arm.is_evidential
    assert set(DEFAULT_EDL) <= set(ARMS)


def test_arms_that_give_opinions_say_so():
    for experiment in study_of(seeds=1).experiments:
        says = isinstance(experiment.plan.build_method().interpret(torch.zeros(1, 2)), Opinion)
        assert ARMS[experiment.arm].gives_opinions == says, experiment.name
        (posthoc,) = experiment.measuring(["posthoc"]).measurements
        assert isinstance(posthoc, WithPosthocOfOpinions) == says
