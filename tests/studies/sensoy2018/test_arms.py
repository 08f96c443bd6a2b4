import dataclasses

import pytest

from nescio.studies.sensoy2018._arms import (
    ARMS,
    BAYESIAN,
    COMPARED,
    DEAD_CLASSES,
    EVIDENTIAL_ARMS,
    LOSSES,
    OTHERS,
    SOURCE,
    label,
)
from nescio.studies.sensoy2018.presets import PRESETS, study_of


def test_the_paper_s_seven_and_edl_three_times():
    assert (*OTHERS, *EVIDENTIAL_ARMS) == COMPARED
    methods = [ARMS[name].overrides.method["name"] for name in COMPARED]
    assert methods == ["softmax", "dropout", "ensemble", "ffgu", "fflu", "mnfg", "edl", "edl", "edl"]
    for name in (*LOSSES, *DEAD_CLASSES, *BAYESIAN, SOURCE):
        assert name in ARMS


def test_labels_tell_arms_apart():
    assert len({label(name) for name in ARMS}) == len(ARMS)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_setting_is_written_out(preset):
    """A default that moves must move nothing here.

    A setting that the library got later goes to LATER_METHOD, LATER_ENCODER or LATER_TRAINING in arms.py,
    with the value that stands for what was done before: it is fixed then, and results stay where they are.
    """
    for experiment in study_of(preset, seeds=1).experiments:
        plan = experiment.plan
        for part, written, built in (
            ("method", plan.method, plan.build_method()),
            ("encoder", plan.encoder, plan.build_encoder()),
            ("training", plan.training, plan.settings()),
        ):
            known = {*written, *plan.later[part]}
            settings = {each.name for each in dataclasses.fields(built)}
            assert settings <= known, (experiment.name, part)


def test_edl_as_printed_has_what_the_paper_says_and_nothing_else():
    for experiment in study_of("paper", seeds=1).select(arms=["edl-printed"]).experiments:
        method = experiment.plan.build_method()
        loss = (method.risk, method.evidence, method.divergence_weight, method.annealing_epochs)
        assert loss == ("squared_error", "relu", 1.0, 10)
        assert method.weight_decay == 0


def test_the_notebook_s_edl_has_the_notebook_s_settings():
    (experiment,) = study_of("paper", seeds=1).select(["mnist"], ["edl-notebook"]).experiments
    method, encoder = experiment.plan.build_method(), experiment.plan.build_encoder()
    assert (method.evidence, method.weight_decay) == ("relu", 0.005)
    assert (encoder.padding, encoder.dropout, encoder.initialisation) == ("same", 0.5, "notebook")
    settings = experiment.plan.settings()
    assert (settings.epochs, settings.batch_size, settings.schedule) == (50, 1000, "constant")
    assert experiment.plan.held_out == 5000  # of 60,000: trained on 55,000
