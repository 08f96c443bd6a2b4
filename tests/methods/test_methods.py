import json

import pytest
import torch
from torch.nn.functional import cross_entropy

import evidentia as ev
from evidentia.methods import EDL, L2, METHODS, Batch, make_method, method_from_dict, method_to_dict
from evidentia.methods.evidential import default_divergence_weight
from evidentia.methods.l2 import weight_penalty
from evidentia.nets import LeNetSpec, MLPSpec


@pytest.fixture
def batch():
    torch.manual_seed(0)
    return Batch(torch.randn(8, 5), torch.arange(8) % 3)


@pytest.fixture
def module():
    torch.manual_seed(1)
    return MLPSpec(5, 3).build()


def test_the_names():
    assert list(METHODS) == ["l2", "edl"]


def test_edl_minimises_the_evidential_loss(module, batch):
    loss, logits = EDL(weight_decay=0.1).objective(module, batch, epoch=4.0, size=100)
    expected = ev.EvidentialLoss()(logits, batch.labels, epoch=4.0) + weight_penalty(module, 0.1)
    torch.testing.assert_close(loss, expected)


def test_l2_minimises_cross_entropy_and_the_weights(module, batch):
    loss, logits = L2(weight_decay=0.1).objective(module, batch, epoch=4.0, size=100)
    squares = sum(float(layer.weight.detach().square().sum()) for layer in module if hasattr(layer, "weight"))
    assert loss.item() == pytest.approx(cross_entropy(logits, batch.labels).item() + 0.05 * squares, rel=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_weights_count_like_repetition(name, module, batch):
    method = make_method(name)
    weight = torch.arange(8) % 3
    weighted, _ = method.objective(module, batch._replace(weights=weight.float()), 4.0, 100)
    repeated = Batch(*(part.repeat_interleave(weight, 0) for part in batch[:2]))
    torch.testing.assert_close(weighted, method.objective(module, repeated, 4.0, 100)[0])


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("spec", [MLPSpec(5, 2), LeNetSpec(1, 16, 16, 10, filters=(2, 3), hidden=4)])
def test_what_every_method_does(name, spec):
    method = make_method(name)
    module = method.build(spec).eval()
    for count in (1, 4):
        prediction = method.predict(module, torch.randn(count, *spec.input_shape), None)
        assert prediction.probabilities.shape == (count, spec.num_classes)
        torch.testing.assert_close(prediction.probabilities.sum(1), torch.ones(count))
        assert ((prediction.uncertainty >= 0) & (prediction.uncertainty <= 1)).all()


@pytest.mark.parametrize("method", [L2(weight_decay=0.5), EDL(risk="type2", divergence_weight=0.2)])
def test_there_and_back_through_json(method):
    assert method_from_dict(json.loads(json.dumps(method_to_dict(method)))) == method


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"name": "magic"}, "method must be one of l2, edl, got 'magic'"),
        ({}, "method must be one of l2, edl"),
        ({"name": "l2", "depth": 3}, "settings do not fit the method l2"),
        ({"name": "edl", "evidence": "tanh"}, "evidence must be one of"),
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
