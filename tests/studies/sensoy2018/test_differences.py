from dataclasses import replace

import pytest
from tests.studies.sensoy2018.small import DIGITS

from nescio.studies.sensoy2018.book import Book
from nescio.studies.sensoy2018.differences import ALWAYS, differences
from nescio.studies.sensoy2018.experiments import LOSSES, PRESETS, Changes, Line


def said(preset):
    return " ".join(differences(Book(preset, [])))


@pytest.mark.parametrize("preset", PRESETS)
def test_what_is_always_said_is_true(preset):
    for study in PRESETS[preset]:
        for each in study.experiments():
            assert each.network.padding == "valid"
            if each.variant.name in LOSSES:
                assert (each.method.evidence, each.method.weight_decay) == ("exp", 0)
                assert each.network.dropout == 0.5
            if each.variant.name == "edl-paper":
                assert (each.method.evidence, each.method.output_bias) == ("relu", 1)
                assert each.variant.label in ALWAYS[3]
            if each.variant.name == "edl-paper" and study.name == "mnist":
                training = each.training
                assert (training.epochs, training.batch_size, training.schedule) == (50, 1000, "constant")


def test_what_changes_follows_the_experiments(monkeypatch):
    ensemble = Changes({"size": 7}, training={"epochs": 9})
    study = replace(DIGITS, lines=(Line("edl"), Line("ensemble")), changes={"ensemble": ensemble})
    monkeypatch.setitem(PRESETS, "quick", (study,))
    assert "Deep Ensemble: on digits 7 networks of 9 epochs. The paper" in said("quick")
    assert "the same for all methods: on digits 20." in said("quick")


def test_both_sets_of_the_paper_are_there():
    sizes = {study.name: study.measuring.attacked for study in PRESETS["paper"]}
    assert f"on MNIST {sizes['mnist']}; on CIFAR5 {sizes['cifar5']}." in said("paper")
    assert "on MNIST 5 networks" in said("paper")
