import json

import pytest
import torch
from torch import nn

import nescio as ev
from nescio.encoders import LeNetSpec, MLPSpec
from nescio.functional import default_divergence_weight
from nescio.methods import EDL, Batch, method_from_dict, method_to_dict
from nescio.methods._shared import weight_penalty


@pytest.fixture
def batch():
    torch.manual_seed(0)
    return Batch(torch.randn(8, 5), torch.arange(8) % 3)


@pytest.fixture
def module():
    torch.manual_seed(1)
    return MLPSpec(5, 3).build()


def test_edl_minimises_the_evidential_loss(module, batch):
    loss, logits = EDL(weight_decay=0.1).objective(module, batch, epoch=4.0, num_train=100)
    expected = ev.EvidentialLoss()(logits, batch.labels, epoch=4.0) + weight_penalty(module, 0.1)
    torch.testing.assert_close(loss, expected)


def test_the_weight_of_the_divergence_by_classes():
    assert [default_divergence_weight(k) for k in (2, 10, 100, 1000)] == pytest.approx(
        [0.1, 0.1, 0.1 * 10**-2.5, 1e-6]
    )
    assert EDL().loss_for(100)._weight_at(10.0, 100) == pytest.approx(0.1 * 10**-2.5)
    assert EDL(divergence_weight=0.5).loss_for(100).divergence_weight == 0.5
    assert ev.EvidentialLoss.paper().divergence_weight == 1.0


def test_the_last_biases_start_where_told():
    module = EDL(evidence="relu", output_bias=1.0).build(LeNetSpec(filters=(2, 3), hidden=4))
    assert module[-1].bias.tolist() == [1.0] * 10
    assert not (module[-4].bias == 1.0).any()


def test_the_bias_of_a_module_of_the_users_own_is_left_to_them(module):
    assert EDL().check_module(module) is module
    with pytest.raises(ev.InputError, match=r"output_bias is for networks that are built from a spec, got 1"):
        EDL(output_bias=1.0).check_module(module)


def test_a_network_without_a_last_bias_can_not_start_from_one(monkeypatch):
    monkeypatch.setattr(MLPSpec, "build", lambda spec, layers: nn.Conv2d(1, 3, 5))
    with pytest.raises(ev.InputError, match=r"output_bias is for networks with an nn\.Linear and a bias"):
        EDL(output_bias=1.0).build(MLPSpec(5, 3))
    monkeypatch.setattr(MLPSpec, "build", lambda spec, layers: nn.Linear(5, 3, bias=False))
    with pytest.raises(ev.InputError, match=r"output_bias is for networks with an nn\.Linear and a bias"):
        EDL(output_bias=1.0).build(MLPSpec(5, 3))


def test_the_weight_of_the_divergence_is_the_losses_default():
    assert EDL().divergence_weight == ev.EvidentialLoss().divergence_weight == "auto"
    assert EDL().loss_for(200)._weight_at(20.0, 200) == default_divergence_weight(200)


def test_none_as_older_files_have_it_is_the_rule():
    assert EDL(divergence_weight=None) == EDL()
    assert method_from_dict({"name": "edl", "divergence_weight": None}).divergence_weight == "auto"
    assert method_from_dict(json.loads(json.dumps(method_to_dict(EDL())))) == EDL()


def test_no_new_loss_for_every_batch():
    method = EDL(evidence="relu")
    assert method.loss_for(5) is method.loss_for(5)
    assert method.loss_for(5) is EDL(evidence="relu").loss_for(5)
    assert method.loss_for(5, "none") is not method.loss_for(5)
    assert method.loss_for(5).evidence == "relu"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"divergence_weight": "much"}, "divergence_weight must be a number from 0 on or 'auto'"),
        ({"divergence_weight": -1.0}, "divergence_weight must be a number from 0 on"),
        ({"risk": ["type2"]}, "risk must be one of"),
        ({"evidence": "tanh"}, "evidence must be one of"),
        ({"output_bias": "1"}, "output_bias must be a finite number, got '1'"),
        ({"output_bias": True}, "output_bias must be a finite number, got True"),
        ({"weight_decay": True}, "weight_decay must be a number from 0 on, got True"),
    ],
)
def test_bad_settings_show_at_once(settings, message):
    with pytest.raises(ev.InputError, match=message):
        EDL(**settings)


def test_weights_of_samples_make_a_weighted_mean():
    module = MLPSpec(in_features=4, num_classes=3, hidden=(5,)).build()
    inputs = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(6) % 3
    weights = torch.tensor([1.0, 0.0, 2.0, 0.0, 1.0, 0.0])
    value, logits = EDL().objective(module, Batch(inputs, labels, weights), epoch=3.0, num_train=6)
    each = ev.EvidentialLoss(reduction="none")(logits, labels, epoch=3.0)
    torch.testing.assert_close(value, (each * weights).sum() / weights.sum())
