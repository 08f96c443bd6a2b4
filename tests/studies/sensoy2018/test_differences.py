from dataclasses import replace

import pytest
from tests.studies.sensoy2018.made import results_of
from tests.studies.small import DIGITS

from nescio.studies.sensoy2018._arms import LOSSES
from nescio.studies.sensoy2018._differences import ALWAYS, differences
from nescio.studies.sensoy2018._overrides import Overrides
from nescio.studies.sensoy2018.presets import PRESETS, Entry, study_of


def said(preset):
    return " ".join(differences(results_of([], preset)))


@pytest.mark.parametrize("preset", PRESETS)
def test_what_is_always_said_is_true(preset):
    for experiment in study_of(preset, seeds=1).experiments:
        method, encoder = experiment.plan.method, experiment.plan.encoder
        assert encoder["padding"] == ("same" if experiment.arm == "edl-notebook" else "valid")
        if experiment.arm in LOSSES:
            assert (method["evidence"], method["weight_decay"]) == ("exp", 0)
            assert encoder["dropout"] == 0.5
        if experiment.arm == "edl-printed":
            assert (method["evidence"], method["weight_decay"], encoder["dropout"]) == ("relu", 0, 0)
        if experiment.arm == "edl-notebook":
            assert (method["weight_decay"], encoder["dropout"]) == (0.005, 0.5)
    assert any("EDL (as printed)" in line for line in ALWAYS)


def test_what_changes_follows_the_experiments(monkeypatch):
    members = Overrides(method={"num_members": 7}, training={"epochs": 9})
    entries = (Entry("l2"), Entry("edl"), Entry("ensemble", overrides=members))
    monkeypatch.setitem(PRESETS, "quick", (replace(DIGITS, entries=entries),))
    assert "Deep Ensemble: on digits 7 networks of 9 epochs. The paper" in said("quick")
    assert "the same for all methods: on digits 20." in said("quick")
    assert "to follow the trainings by: on digits 100." in said("quick")


def test_attacked_images_of_another_l2_network_are_said(monkeypatch):
    other = Overrides(source=Overrides(training={"epochs": 9}))
    entries = (Entry("l2"), Entry("edl"), Entry("dropout", overrides=other))
    monkeypatch.setitem(PRESETS, "quick", (replace(DIGITS, entries=entries),))
    assert "with other settings than in the table, for Dropout on digits (9 epochs)." in said("quick")
    monkeypatch.setitem(PRESETS, "quick", (replace(DIGITS, entries=entries[:2]),))
    assert "with other settings" not in said("quick")


def test_another_precision_is_said(monkeypatch):
    shorter = Overrides(training={"precision": "bfloat16"})
    entries = (Entry("l2"), Entry("edl"), Entry("dropout", overrides=shorter))
    comparison = replace(DIGITS, training={**DIGITS.training, "precision": "float32"}, entries=entries)
    monkeypatch.setitem(PRESETS, "quick", (comparison,))
    assert "Dropout on digits is trained in bfloat16, the others in float32: this saves" in said("quick")
    monkeypatch.setitem(PRESETS, "quick", (replace(comparison, entries=entries[:2]),))
    assert "is trained in" not in said("quick")


def test_both_sets_of_the_paper_are_there():
    assert "on MNIST 5 networks of 10 epochs" in said("paper")
    assert "; on CIFAR5" in said("paper")
