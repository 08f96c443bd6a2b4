import json

import pytest
import torch
from torch.nn.functional import cross_entropy

import nescio as ev
from nescio.encoders import LeNetSpec, MLPSpec
from nescio.methods import (
    EDL,
    Batch,
    Dropout,
    Ensemble,
    Softmax,
    make_method,
    method_from_dict,
    method_to_dict,
)
from nescio.methods._shared import weight_penalty
from nescio.methods.evidential.edl import default_divergence_weight


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


def test_softmax_minimises_cross_entropy_and_the_weights(module, batch):
    loss, logits = Softmax(weight_decay=0.1).objective(module, batch, epoch=4.0, num_train=100)
    squares = sum(float(layer.weight.detach().square().sum()) for layer in module if hasattr(layer, "weight"))
    assert loss.item() == pytest.approx(cross_entropy(logits, batch.labels).item() + 0.05 * squares, rel=1e-5)


@pytest.mark.parametrize("method", [Softmax(weight_decay=0.5), EDL(risk="type2", divergence_weight=0.2)])
def test_there_and_back_through_json(method):
    assert method_from_dict(json.loads(json.dumps(method_to_dict(method)))) == method


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"name": "magic"}, "method must be one of softmax, .*edl, got 'magic'"),
        ({}, "method must be one of softmax, "),
        ({"name": "l2", "depth": 3}, "the method softmax has no setting 'depth'; it has weight_decay"),
        ({"name": "edl", "evidence": "tanh"}, "evidence must be one of"),
        ({"name": "edl", "output_bias": float("nan")}, "output_bias must be a finite number"),
        ({"name": "l2", "weight_decay": -1.0}, "weight_decay must be a number from 0 on, got -1.0"),
        ({"name": "edl", "weight_decay": float("nan")}, "weight_decay must be a number from 0 on, got nan"),
        ({"name": "dropout", "samples": 0}, "samples must be a whole number from 1 on, got 0"),
        ({"name": "ensemble", "size": 0}, "num_members must be a whole number from 1 on, got 0"),
        ({"name": "ensemble", "epsilon": 1.5}, "epsilon must be from 0 to 1"),
    ],
)
def test_what_does_not_fit(data, reason):
    with pytest.raises(ev.InputError, match=reason):
        method_from_dict(data)


def test_the_weight_of_the_divergence_by_classes():
    assert [default_divergence_weight(k) for k in (2, 10, 100, 1000)] == pytest.approx([1, 1, 0.01, 0.0001])
    assert EDL().loss_for(100).divergence_weight == pytest.approx(0.01)
    assert EDL(divergence_weight=0.5).loss_for(100).divergence_weight == 0.5
    assert ev.EvidentialLoss.paper().divergence_weight == 1.0


def test_the_last_biases_start_where_told():
    module = EDL(evidence="relu", output_bias=1.0).build(LeNetSpec(filters=(2, 3), hidden=4))
    assert module[-1].bias.tolist() == [1.0] * 10
    assert not (module[-4].bias == 1.0).any()


def test_weight_decay_needs_dense_layers(batch):
    module = torch.nn.Sequential(torch.nn.Unflatten(1, (1, 5)), torch.nn.Conv1d(1, 3, 5), torch.nn.Flatten())
    with pytest.raises(ev.InputError, match="weight_decay is for dense layers, and the network has none"):
        Softmax(weight_decay=0.1).objective(module, batch, 0.0, 8)


def test_dropout_averages_passes_with_units_switched_off():
    """One hidden unit, kept half of the time: by hand, the mean of softmax with it doubled and without it."""
    method = Dropout(samples=4000)
    module = method.build(MLPSpec(1, 2, hidden=(1,), dropout=0.5)).eval()
    inputs = torch.tensor([[1.5]])
    with torch.no_grad():
        module[0].weight.fill_(1.0), module[0].bias.zero_()
        hidden = module[0](inputs).relu()
        on, off = (module[3](scale * hidden).softmax(-1) for scale in (2.0, 0.0))
        found = method.predict(module, inputs, torch.Generator().manual_seed(0)).probabilities
    torch.testing.assert_close(found, (on + off) / 2, rtol=0, atol=0.02)
    assert not module.training
    assert not module[2].training


def test_dropout_needs_a_network_with_it():
    with pytest.raises(ev.InputError, match="needs a network with dropout"):
        Dropout().build(MLPSpec(3, 2))
    assert Dropout().default_encoder(MLPSpec(3, 2)).dropout == 0.5
    assert Dropout().default_encoder(MLPSpec(3, 2, dropout=0.2)).dropout == 0.2


def test_the_first_layers_are_computed_once():
    calls = []
    module = Dropout().build(LeNetSpec(filters=(2, 3), hidden=4)).eval()
    module[0].register_forward_hook(lambda *_: calls.append("convolution"))
    module[-1].register_forward_hook(lambda *_: calls.append("last"))
    Dropout(samples=5).predict(module, torch.randn(2, 1, 28, 28), torch.Generator())
    assert calls == ["convolution"] + ["last"] * 5


def test_the_ensemble_minimises_clean_and_adversarial_loss():
    """Against the plain computation: two losses, their mean, and its gradient by one backward pass."""
    method, spec = Ensemble(2, epsilon=0.05), MLPSpec(5, 3)
    torch.manual_seed(0)
    member = method.build(spec).networks[0].train()
    batch = Batch(torch.randn(8, 5), torch.arange(8) % 3, None, torch.tensor([1.0, 2, 3, 4, 5]))
    loss, _ = method.objective(member, batch, 0.0, 8)
    found = torch.autograd.grad(loss, list(member.parameters()))
    inputs = batch.inputs.clone().requires_grad_()
    (slope,) = torch.autograd.grad(cross_entropy(member(inputs), batch.labels), inputs)
    attacked = batch.inputs + 0.05 * batch.input_range * slope.sign()
    plain = 0.5 * (
        cross_entropy(member(batch.inputs), batch.labels) + cross_entropy(member(attacked), batch.labels)
    )
    torch.testing.assert_close(loss, plain)
    torch.testing.assert_close(found, torch.autograd.grad(plain, list(member.parameters())))


def test_the_ensemble_is_the_mean_of_its_members():
    method = Ensemble(3)
    module = method.build(MLPSpec(5, 4)).eval()
    inputs = torch.randn(6, 5)
    expected = torch.stack([one(inputs).softmax(-1) for one in method.members(module)]).mean(0)
    torch.testing.assert_close(method.predict(module, inputs, torch.Generator()).probabilities, expected)
    assert not torch.equal(module.networks[0][0].weight, module.networks[1][0].weight)


def test_dropout_that_works_in_place_is_the_same():
    spec = MLPSpec(4, 3, dropout=0.5)
    torch.manual_seed(0)
    module, inputs = spec.build().eval(), torch.randn(5, 4)
    plain = Dropout().predict(module, inputs, torch.Generator().manual_seed(0)).probabilities
    for layer in module:
        if isinstance(layer, torch.nn.Dropout):
            layer.inplace = True
    found = Dropout().predict(module, inputs, torch.Generator().manual_seed(0)).probabilities
    assert torch.equal(found, plain)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("dropout", "needs a network with dropout"),
        ("ensemble", "builds its members itself; give a network spec"),
        ("ffgu", "must have Bayesian layers"),
        ("mnfg", "must have Bayesian layers"),
    ],
)
def test_a_network_of_ones_own_that_a_method_can_not_train(name, reason):
    with pytest.raises(ev.InputError, match=reason):
        make_method(name).check_module(torch.nn.Linear(5, 3))
