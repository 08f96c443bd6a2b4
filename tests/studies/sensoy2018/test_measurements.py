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
from tests.studies.small import LENET, measurement, one

from nescio.data import load
from nescio.data.preprocess import Preprocess
from nescio.encoders import spec_from_dict
from nescio.errors import InputError
from nescio.inference.model import TrainedModel
from nescio.methods import make_method
from nescio.metrics import narrowest, rotate
from nescio.opinions.categorical import Categorical
from nescio.opinions.opinion import Opinion
from nescio.studies.plan import as_plain
from nescio.studies.runner import train
from nescio.studies.sensoy2018 import _measurements as measurements
from nescio.studies.sensoy2018._measurements import (
    UNSEEN_DRAWS,
    evidence_numbers,
    images_of,
    predict,
    with_samples,
)


@pytest.fixture(scope="module")
def edl(folder):
    return train(one("edl").plan, folder)


def measured(results, arm, name, seed=0):
    return results.numbers("digits", arm, name)[seed]


def test_all_networks_are_asked_about_the_same_images():
    images = images_of("digits", 20)
    assert images_of("digits", 20) is images
    assert len(images) == 20
    assert len(images.labels.unique()) > 5
    assert images_of("digits").images.equal(load("digits", "test").images)


def test_ood_images_are_loaded_only_where_they_are_asked_about(edl, monkeypatch):
    images_of.cache_clear()
    there = {"digits": load}
    monkeypatch.setattr(measurements, "load", lambda data, split: there[data](data, split))
    measurement(one("edl"), "known").run(edl)
    with pytest.raises(KeyError, match="letters"):
        measurement(one("edl"), "ood").run(edl)


def test_the_data_that_are_needed_are_named():
    assert measurement(one("edl"), "known").data == {"digits": "test"}
    assert measurement(one("edl"), "ood").data == {"digits": "test", "letters": "test"}
    assert measurement(one("edl"), "pgd").data == {"digits": "test"}
    assert measurement(one("edl"), "rotation").data == {"digits": "test"}


def test_known_classes(results, edl):
    images = images_of("digits", 200)
    opinion = edl.predict(images.images)
    numbers = measured(results, "edl", "known")
    right = opinion.labels == images.labels
    assert numbers["images"] == 200
    assert numbers["scores"]["accuracy"] == pytest.approx(float(right.double().mean()))
    assert numbers["scores"]["answered"] == 1
    total = opinion.evidence.double().sum(1)
    assert numbers["evidence"]["right"] == pytest.approx(float(total[right].mean()), rel=1e-5)
    assert numbers["evidence"]["wrong"] == pytest.approx(float(total[~right].mean()), rel=1e-5)
    assert numbers["evidence"]["dead"] == []
    half = numbers["threshold"]["threshold"].index(0.5)
    kept = opinion.uncertainty <= 0.5
    assert numbers["threshold"]["coverage"][half] == pytest.approx(float(kept.double().mean()))
    if bool(kept.any()):
        accuracy = float(right[kept].double().mean())
        assert numbers["threshold"]["accuracy"][half] == pytest.approx(accuracy)


def test_softmax_has_no_evidence(results):
    assert measured(results, "l2", "known")["evidence"] is None
    assert evidence_numbers(Categorical(torch.ones(2, 2) / 2), torch.tensor([0, 1])) is None


def test_evidence_of_the_dead_and_the_vacuous():
    opinion = Opinion(torch.tensor([[3.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 8.0], [2.0, 0.0, 0.0]]))
    numbers = as_plain(evidence_numbers(opinion, torch.tensor([0, 0, 2, 2])))
    assert numbers["dead"] == [1]
    assert numbers["vacuous"] == 0.25
    assert numbers["right"] == pytest.approx((4 + 8) / 2)
    assert numbers["wrong"] == pytest.approx((0 + 2) / 2)
    assert numbers["belief_when_wrong"] == pytest.approx((0 + 2 / 5) / 2)
    assert numbers["highest"] == 8


def test_out_of_distribution(results, edl):
    known, ood = (edl.predict(images_of(*asked).images) for asked in (("digits", 200), ("letters", 150)))
    numbers = measured(results, "edl", "ood")
    scores = torch.cat([known.entropy(), ood.entropy()]).tolist()
    expected = roc_auc_score([0] * 200 + [1] * 150, scores)
    assert numbers["images"] == {"known": 200, "ood": 150}
    assert numbers["scores"]["entropy_auroc"] == pytest.approx(expected, abs=1e-4)
    assert numbers["scores"]["ood_mean_entropy"] == pytest.approx(float(ood.entropy(True).mean()), abs=1e-4)
    assert len(numbers["entropy"]) == len(numbers["share"]["ood"]) == 101
    assert numbers["entropy"][-1] == pytest.approx(math.log(10))
    share = float((ood.entropy().double() <= numbers["entropy"][50]).double().mean())
    assert numbers["share"]["ood"][50] == pytest.approx(share, abs=0.01)


def test_the_turning_one(results, edl):
    numbers = measured(results, "edl", "rotation")
    digits = load("digits", "test")
    turned = rotate(narrowest(digits.images[digits.labels == 1]), numbers["degrees"])
    shown = np.array(Image.open(io.BytesIO(base64.b64decode(numbers["strip"]))))
    assert np.array_equal(shown, np.concatenate(list(turned[:, 0].numpy()), axis=1))
    opinion = edl.predict(turned)
    np.testing.assert_allclose(numbers["uncertainty"], opinion.uncertainty.numpy(), rtol=1e-5)
    np.testing.assert_allclose(numbers["probabilities"], opinion.probabilities.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("arm", ["l2", "dropout", "edl", "edl-printed"])
def test_attacks_start_from_the_images_themselves(results, folder, arm):
    data = images_of("digits", 20)
    model = with_samples(train(one(arm).plan, folder), measurement(one(arm), "fgsm").samples)
    prediction = predict(model, data.images, UNSEEN_DRAWS)
    right = (prediction.labels == data.labels) & ~prediction.is_vacuous
    for attack in ("fgsm", "pgd") if arm == "l2" else ("fgsm", "pgd", "transfer"):
        numbers = measured(results, arm, attack)
        assert numbers["images"] == 20
        curve = numbers["curve"]
        assert curve["epsilon"][0] == 0
        assert curve["accuracy"][0] == pytest.approx(float(right.double().mean()))
        assert curve["entropy"][0] == pytest.approx(float(prediction.entropy(True).mean()), abs=1e-4)


@pytest.mark.parametrize("arm", ["l2", "dropout", "edl"])
def test_attacks_succeed(results, arm):
    curve = measured(results, arm, "fgsm")["curve"]
    assert curve["accuracy"][-1] < curve["accuracy"][0] - 0.2


def test_transferred_images_are_those_of_l2(results, folder):
    """Shown to L2 itself they do what its own attack does."""
    own = measured(results, "l2", "fgsm")
    model = train(one("l2").plan, folder)
    found = as_plain(measurement(one("edl"), "transfer").run(model, [model]))
    assert found == {"images": 20, "curve": own["curve"]}


def test_transferred_images_need_their_source(edl):
    with pytest.raises(InputError, match="need the model that they come from"):
        measurement(one("edl"), "transfer").run(edl)


@pytest.mark.parametrize(("evidence", "share"), [("relu", 1.0), ("exp", 0.0)])
def test_only_relu_evidence_loses_gradients(edl, evidence, share):
    """Outputs far below zero: no evidence with ReLU, a little with exp."""
    module = copy.deepcopy(edl.module)
    last = [layer for layer in module.modules() if isinstance(layer, torch.nn.Linear)][-1]
    with torch.no_grad():
        last.bias -= 1000 if evidence == "relu" else 5
    model = replace(edl, module=module, method=replace(edl.method, evidence=evidence))
    assert measurement(one("edl"), "fgsm").run(model)["without_gradient"] == share
    curve = measurement(one("edl"), "pgd").run(model)["curve"]
    assert curve["without_gradient"] == curve["vacuous"] == [share, share]


def model_of(method):
    network = method.default_encoder(spec_from_dict(LENET))
    pixels = Preprocess.fit(images_of("digits").images)
    return TrainedModel(method.build(network), method, tuple("0123456789"), pixels)


@pytest.mark.parametrize("name", ["dropout", "ffgu"])
def test_the_attacked_answer_with_draws_that_the_attack_has_not_seen(name, monkeypatch):
    method = make_method(name, samples=2)
    seeds = {"attack": set(), "answer": set()}
    usual = type(method).predict

    def watched(self, module, inputs, generator):
        seeds["attack" if inputs.requires_grad else "answer"].add(generator.initial_seed())
        return usual(self, module, inputs, generator)

    monkeypatch.setattr(type(method), "predict", watched)
    model = model_of(method)
    measurement(one("dropout"), "fgsm").run(model)
    measurement(one("dropout"), "pgd").run(model)
    assert seeds == {"attack": {0}, "answer": {UNSEEN_DRAWS}}


def test_fresh_draws_are_another_attack():
    model = model_of(make_method("dropout", samples=2))
    attack = measurement(one("dropout"), "pgd")
    fresh, same = (replace(attack, fresh_draws=each).run(model)["curve"] for each in (True, False))
    assert fresh["accuracy"][0] == same["accuracy"][0]
    assert fresh["entropy"] != same["entropy"]
    assert replace(attack, fresh_draws=True).run(model)["curve"] == fresh


def test_settings_say_what_numbers_depend_on():
    dropout = one("dropout")
    assert measurement(dropout, "known").settings() == {
        "name": "known",
        "version": 1,
        "test_data": "digits",
        "images": 200,
        "samples": 4,
        "seed": 0,
    }
    assert measurement(dropout, "ood").settings()["ood_data"] == "letters"
    assert measurement(dropout, "pgd").settings() == {
        "name": "pgd",
        "version": 2,
        "test_data": "digits",
        "images": 20,
        "batch": 8,
        "samples": 2,
        "epsilons": (0.0, 0.1),
        "seed": 0,
        "steps": 2,
        "fresh_draws": True,
    }
    assert measurement(dropout, "transfer").settings()["source"]["method"]["name"] == "softmax"
