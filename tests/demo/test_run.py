import math

import pytest
import torch
from sklearn.metrics import roc_auc_score

from nescio.data import load
from nescio.demo import _run as run
from nescio.errors import InputError
from nescio.opinions.categorical import Categorical
from nescio.opinions.opinion import Opinion


def test_both_networks_are_trained_alike(outcome):
    ours, usual = (dict(measured.model.training) for measured in outcome.both)
    assert (ours["method"]["name"], usual["method"]["name"]) == ("edl", "softmax")
    for same in ("network", "settings", "data"):
        assert ours[same] == usual[same]
    assert ours["settings"] == outcome.settings.resolved(1000).to_dict()
    assert (ours["settings"]["seed"], ours["settings"]["epochs"]) == (1, 6)
    assert ours["data"]["samples"] == 1000


def test_each_epoch_is_reported(outcome, reported):
    epochs = [(name, metrics["epoch"]) for name, metrics in reported]
    assert epochs == [(name, epoch) for name in ("evidential", "softmax") for epoch in range(1, 7)]


def test_both_are_asked_the_same(outcome):
    kinds = [type(measured.digits) for measured in outcome.both]
    assert kinds == [Opinion, Categorical]
    for measured in outcome.both:
        assert [len(measured.digits), len(measured.letters), len(measured.rotated)] == [1000, 1000, 19]
        again = measured.model.predict(outcome.inputs.rotated)
        assert torch.equal(again.probabilities, measured.rotated.probabilities)


@pytest.mark.parametrize("which", ["evidential", "softmax"])
def test_figures_follow_from_the_predictions(outcome, which):
    measured = getattr(outcome, which)
    digits, letters = measured.digits.probabilities.double(), measured.letters.probabilities.double()
    entropy = [-(p * p.clamp_min(1e-300).log()).sum(1) / math.log(10) for p in (digits, letters)]
    right = digits.argmax(1) == outcome.inputs.test.labels
    doubt = [measured.digits.uncertainty, measured.letters.uncertainty]
    expected = {
        "accuracy": right.double().mean(),
        "auroc": roc_auc_score([0] * 1000 + [1] * 1000, torch.cat(entropy)),
        "entropy_letters": entropy[1].mean(),
        "entropy_digits": entropy[0].mean(),
        "abstained_letters": (doubt[1] >= 0.5).double().mean(),
        "abstained_digits": (doubt[0] >= 0.5).double().mean(),
    }
    assert measured.figures.keys() == expected.keys()
    for name, value in expected.items():
        assert measured.figures[name] == pytest.approx(float(value), abs=1e-4), name


def test_the_whole_data_is_the_default():
    inputs = run.demo_inputs()
    assert [len(inputs.train), len(inputs.test), len(inputs.letters)] == [4000, 1000, 2000]
    assert torch.equal(inputs.letters.images, load("letters", "test").images[:2000])


def test_a_small_demo_draws_the_same_samples_each_time():
    first, second = run.demo_inputs(200), run.demo_inputs(200)
    assert torch.equal(first.train.images, second.train.images)
    assert len(first.test) == len(first.letters) == 200


@pytest.mark.parametrize("samples", [99, 0, -1])
def test_too_few_samples_are_refused(samples):
    with pytest.raises(InputError, match=f"samples must be 100 or more, got {samples}"):
        run.demo_inputs(samples)


@pytest.mark.parametrize("settings", [{"seed": -1}, {"epochs": 0}])
def test_bad_settings_are_refused(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        run.demo_settings(**settings)


def test_the_one_stands_upright_and_on_its_head_at_the_end(outcome):
    digits = load("digits", "test")
    one = run.upright_one(digits)
    widths = [int((image[0] > 0).any(0).sum()) for image in digits.images[digits.labels == 1]]
    assert int((one[0] > 0).any(0).sum()) == min(widths)
    turned = outcome.inputs.rotated
    assert run.ANGLES[0] == 0
    assert run.ANGLES[-1] == 180
    assert torch.equal(turned[0], one)
    assert (turned[-1].int() - one.flip(1, 2).int()).abs().max() <= 1
