import re
from dataclasses import replace

import pytest
from tests.paper.small import DIGITS, SMALL, one

from evidentia.nets import LeNetSpec
from evidentia.paper.book import Book
from evidentia.paper.differences import accuracy_as_published, differences, samples
from evidentia.paper.experiments import PRESETS, Changes
from evidentia.paper.results import Result


def said(preset="paper"):
    return " ".join(differences(Book(preset, [])))


def with_changes(monkeypatch, **changes):
    """`quick` in small, some variants changed."""
    study = replace(DIGITS, changes={**DIGITS.changes, **changes})
    monkeypatch.setitem(PRESETS, "quick", (study, *SMALL[1:]))


def test_every_training_of_the_paper_is_told_as_it_is():
    text = said()
    for study in PRESETS["paper"]:
        usual = (study.training.epochs, study.training.batch_size)
        assert f"{usual[0]} epochs in batches of {usual[1]}" in text
        for each in study.experiments():
            epochs, batch = each.training.epochs, each.training.batch_size
            if (epochs, batch) != usual:
                assert re.search(rf"{re.escape(each.variant.label)}[^():]*: {epochs} of {batch}", text)
            if (drawn := samples(each)) is not None:
                label = re.escape(each.variant.label)
                assert re.search(rf"{label}[^():]* {drawn[0]} \(attacked: {drawn[1]}\)", text)
            if each.variant.name == "ensemble":
                assert f"{each.method.size} networks of {epochs} epochs" in text


def test_samples_are_those_used_not_those_trained_with():
    assert samples(one("dropout")) == (4, 2)
    assert samples(one("edl")) is None
    assert samples(replace(one("dropout"), study=replace(DIGITS, changes={}))) == (50, 50)


def test_the_words_follow_the_experiments(monkeypatch):
    with_changes(monkeypatch)
    before = said("quick")
    assert "0.004 for L2 / Dropout" in before
    assert 'It stays here too on digits for "EDL, as in the paper".' in before
    assert "(VALID)" in before
    assert "CIFAR5" not in before
    with_changes(
        monkeypatch,
        **{
            "edl-paper": Changes({"output_bias": 0.0}, training={"epochs": 2, "schedule": "cosine"}),
            "l2": Changes(network={"padding": "same"}),
            "edl": Changes({"evidence": "relu"}),
        },
    )
    after = said("quick")
    for gone in ("It stays here too", "(VALID)", "starts the biases", "not ReLU"):
        assert gone in before
        assert gone not in after


def test_a_constant_rate_at_adam_s_default_is_no_difference(monkeypatch):
    training = replace(DIGITS.training, learning_rate=1e-3, schedule="constant")
    monkeypatch.setitem(PRESETS, "quick", (replace(DIGITS, training=training),))
    assert "learning rate" not in said("quick")
    monkeypatch.setitem(PRESETS, "quick", (replace(DIGITS, network=LeNetSpec(dropout=0.0)),))
    assert "Dropout of the hidden layer" not in said("quick")


def published(accuracy, study="mnist"):
    known = {"scores": {"accuracy": accuracy}, "evidence": {"right": 54.6, "rejected": 0.04}}
    turned = {"degrees": [0, 30, 40, 140, 150], "uncertainty": [0.1, 0.5, 0.8, 1.0, 0.2]}
    parts = {"known": known, "rotation": turned}
    return Result(
        study, "edl-paper", 0, {}, {name: {"settings": {}, "numbers": n} for name, n in parts.items()}
    )


def test_a_lower_accuracy_than_published_is_explained_by_its_numbers():
    text = accuracy_as_published(Book("paper", [published(0.95)]))
    assert "gets 95.00% right on MNIST where 99.3% are published" in text
    assert "4.00% of the test images get no evidence" in text
    assert "of the rest 98.96% are right" in text
    assert "is 55, in the author's notebook 56; " in text
    assert "is 0.10 upright and 0.90 between 40 and 140 degrees" in text


@pytest.mark.parametrize(
    "book",
    [
        Book("paper", []),
        Book("paper", [published(0.993)]),
        Book("quick", [published(0.95, "digits")]),
    ],
)
def test_there_is_nothing_to_explain(book):
    assert accuracy_as_published(book) == ""
