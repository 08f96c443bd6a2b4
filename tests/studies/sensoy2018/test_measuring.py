import base64
import copy
import io
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.metrics import roc_auc_score
from tests.studies.sensoy2018.small import DIGITS, one

from nescio.data import load
from nescio.data.preprocess import Preprocess
from nescio.errors import InputError
from nescio.inference.model import TrainedModel
from nescio.methods import make_method
from nescio.metrics import narrowest, rotate
from nescio.opinions.categorical import Categorical
from nescio.opinions.opinion import Opinion
from nescio.studies.sensoy2018 import measuring
from nescio.studies.sensoy2018.engine import trained
from nescio.studies.sensoy2018.measuring import (
    evidence_numbers,
    images_of,
    measure,
    measured_with,
    part_settings,
)
from nescio.studies.sensoy2018.results import plain


@pytest.fixture(scope="module")
def edl(folder):
    return trained(one("edl"), folder)


def test_all_networks_are_asked_about_the_same_images():
    images = images_of("digits", 20)
    assert images_of("digits", 20) is images
    assert len(images) == 20
    assert len(images.labels.unique()) > 5
    assert images_of("digits").images.equal(load("digits", "test").images)


def test_strangers_are_loaded_only_where_they_are_asked_about(edl, monkeypatch):
    images_of.cache_clear()
    there = {"digits": load}
    monkeypatch.setattr(measuring, "load", lambda data, split: there[data](data, split))
    measure("known", one("edl"), edl, None)
    with pytest.raises(KeyError, match="letters"):
        measure("strangers", one("edl"), edl, None)


def test_known_numbers(book, edl):
    images = images_of("digits", 200)
    opinion = edl.predict(images.images)
    (numbers, _) = book.numbers("digits", "edl", "known")
    right = opinion.labels == images.labels
    assert numbers["scores"]["accuracy"] == pytest.approx(float(right.double().mean()))
    total = opinion.evidence.double().sum(1)
    assert numbers["evidence"]["right"] == pytest.approx(float(total[right].mean()), rel=1e-5)
    assert numbers["evidence"]["wrong"] == pytest.approx(float(total[~right].mean()), rel=1e-5)
    assert numbers["evidence"]["dead"] == []
    half = numbers["threshold"]["threshold"].index(0.5)
    kept = opinion.uncertainty <= 0.5
    assert numbers["threshold"]["coverage"][half] == pytest.approx(float(kept.double().mean()))
    assert numbers["threshold"]["accuracy"][half] == pytest.approx(float(right[kept].double().mean()))


def test_softmax_has_no_evidence(book):
    assert book.numbers("digits", "l2", "known")[0]["evidence"] is None
    assert evidence_numbers(Categorical(torch.ones(2, 2) / 2), torch.tensor([0, 1])) is None


def test_evidence_of_the_dead_and_the_rejected():
    opinion = Opinion(torch.tensor([[3.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 8.0], [2.0, 0.0, 0.0]]))
    numbers = plain(evidence_numbers(opinion, torch.tensor([0, 0, 2, 2])))
    assert numbers["dead"] == [1]
    assert numbers["rejected"] == 0.25
    assert numbers["right"] == pytest.approx((4 + 8) / 2)
    assert numbers["wrong"] == pytest.approx((0 + 2) / 2)
    assert numbers["belief_when_wrong"] == pytest.approx((0 + 2 / 5) / 2)
    assert numbers["highest"] == 8


def test_stranger_numbers(book, edl):
    known, unknown = (edl.predict(images_of(*asked).images) for asked in (("digits", 200), ("letters", 150)))
    (numbers, _) = book.numbers("digits", "edl", "strangers")
    scores = torch.cat([known.entropy(), unknown.entropy()]).tolist()
    assert numbers["scores"]["entropy_auroc"] == pytest.approx(
        roc_auc_score([0] * 200 + [1] * 150, scores), abs=1e-4
    )
    assert len(numbers["entropy"]) == len(numbers["share"]["unknown"]) == 101
    assert numbers["entropy"][-1] == pytest.approx(math.log(10))
    middle = numbers["entropy"][50]
    share = float((unknown.entropy().double() <= middle).double().mean())
    assert numbers["share"]["unknown"][50] == pytest.approx(share, abs=0.01)


def test_the_turning_one(book, edl):
    (numbers, _) = book.numbers("digits", "edl", "rotation")
    digits = load("digits", "test")
    turned = rotate(narrowest(digits.images[digits.labels == 1]), numbers["degrees"])
    shown = np.array(Image.open(io.BytesIO(base64.b64decode(numbers["strip"]))))
    assert np.array_equal(shown, np.concatenate(list(turned[:, 0].numpy()), axis=1))
    opinion = edl.predict(turned)
    np.testing.assert_allclose(numbers["uncertainty"], opinion.uncertainty.numpy(), rtol=1e-5)
    np.testing.assert_allclose(numbers["probabilities"], opinion.probabilities.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("variant", ["l2", "dropout", "edl", "edl-paper"])
def test_attacks_start_from_the_images_themselves(book, folder, variant):
    data = images_of("digits", 20)
    model = trained(one(variant), folder)
    changes = one(variant).changes
    model = measured_with(model, {**changes.measured, **changes.attacked})
    prediction = measuring.predicted(model, data.images, measuring.NEW_DRAWS)
    right = (prediction.labels == data.labels) & ~prediction.is_vacuous
    for part in ("fgsm", "pgd") if variant == "l2" else ("fgsm", "pgd", "transfer"):
        curve = book.numbers("digits", variant, part)[0]["curve"]
        assert curve["epsilon"][0] == 0
        assert curve["accuracy"][0] == pytest.approx(float(right.double().mean()))
        assert curve["entropy"][0] == pytest.approx(float(prediction.entropy(True).mean()), abs=1e-4)


@pytest.mark.parametrize("variant", ["l2", "dropout", "edl"])
def test_attacks_succeed(book, variant):
    curve = book.numbers("digits", variant, "fgsm")[0]["curve"]
    assert curve["accuracy"][-1] < curve["accuracy"][0] - 0.2


def test_transferred_images_are_those_of_l2(book, folder):
    """Shown to L2 itself they do what its own attack does."""
    own = book.numbers("digits", "l2", "fgsm")[0]
    model = trained(one("l2"), folder)
    assert plain(measure("transfer", one("edl"), model, model)) == {"curve": own["curve"]}


def test_transferred_images_need_their_source(folder):
    with pytest.raises(InputError, match="need the model that they come from"):
        measure("transfer", one("edl"), trained(one("edl"), folder), None)


@pytest.mark.parametrize(("evidence", "stuck"), [("relu", 1.0), ("exp", 0.0)])
def test_only_relu_evidence_loses_gradients(edl, evidence, stuck):
    """Outputs far below zero: no evidence with ReLU, a little with exp."""
    module = copy.deepcopy(edl.module)
    with torch.no_grad():
        module[-1].bias -= 1000 if evidence == "relu" else 5
    model = replace(edl, module=module, method=replace(edl.method, evidence=evidence))
    assert measure("fgsm", one("edl"), model, None)["without_gradient"] == stuck
    curve = measure("pgd", one("edl"), model, None)["curve"]
    assert curve["without_gradient"] == curve["rejected"] == [stuck, stuck]


@pytest.mark.parametrize("variant", ["dropout", "ffgu"])
def test_the_attacked_answer_with_draws_that_the_attack_has_not_seen(variant, monkeypatch):
    method = make_method(variant, samples=2)
    seeds = {"attack": set(), "answer": set()}
    predict = type(method).predict

    def watched(self, module, inputs, generator):
        seeds["attack" if inputs.requires_grad else "answer"].add(generator.initial_seed())
        return predict(self, module, inputs, generator)

    monkeypatch.setattr(type(method), "predict", watched)
    network = method.adapt(DIGITS.network)
    pixels = Preprocess.fit(images_of("digits").images)
    model = TrainedModel(method.build(network), method, tuple("0123456789"), pixels)
    measure("fgsm", one("edl"), model, None)
    measure("pgd", one("edl"), model, None)
    assert seeds == {"attack": {0}, "answer": {measuring.NEW_DRAWS}}


def test_part_settings_say_what_numbers_depend_on():
    dropout = one("dropout")
    assert part_settings("known", dropout) == {"known": 200, "method": {"samples": 4}}
    assert part_settings("strangers", dropout)["data"] == "letters"
    assert part_settings("fgsm", dropout) == {
        "version": measuring.ATTACKING,
        "images": 20,
        "batch": 8,
        "method": {"samples": 2},
        "epsilon": DIGITS.measuring.fgsm,
    }
    assert part_settings("pgd", dropout)["steps"] == 2
    assert part_settings("transfer", dropout)["source"]["method"]["name"] == "l2"


def test_no_such_part(edl):
    with pytest.raises(InputError, match="there is no part 'colour'"):
        measure("colour", one("edl"), edl, None)
