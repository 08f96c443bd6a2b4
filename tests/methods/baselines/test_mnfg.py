import pytest
import torch
from torch.nn.functional import cross_entropy

import nescio as ev
from nescio.encoders import LeNetSpec, MLPSpec
from nescio.methods import FFGU, MNFG, Batch
from nescio.methods.baselines._bayesian import (
    bayesian_layers,
    divergence,
    normal_divergence,
    use_sampled_weights,
)
from nescio.methods.baselines._flows import FlowLayer

SPECS = [MLPSpec(5, 2), LeNetSpec(1, 16, 16, 10, filters=(2, 3), hidden=4)]


def batch_for(spec, count=8):
    torch.manual_seed(0)
    return Batch(torch.randn(count, *spec.input_shape), torch.arange(count) % spec.num_classes)


@pytest.mark.parametrize("spec", SPECS)
def test_every_layer_has_flows_as_told(spec):
    layers = bayesian_layers(MNFG(flow_length=3, flow_hidden=7).build(spec))
    assert len(layers) == (4 if isinstance(spec, LeNetSpec) else 3)
    for layer in layers:
        assert isinstance(layer, FlowLayer)
        assert layer.z_axis == (0 if layer.weight.ndim == 4 else 1)
        for flow in (layer.multiplier.flow, layer.multiplier.inverse):
            assert [len(step.hidden.bias) for step in flow.steps] == [7, 7, 7]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize(("epoch", "share"), [(0.0, 0.0), (3.0, 0.3), (20.0, 1.0)])
def test_the_objective_is_cross_entropy_and_a_share_of_the_bound(spec, epoch, share):
    method, batch = MNFG(warm_up_epochs=10), batch_for(spec)
    module = method.build(spec)
    torch.manual_seed(2)
    loss, logits = method.objective(module, batch, epoch, num_train=500)
    torch.manual_seed(2)
    assert torch.equal(logits, module(batch.inputs))
    expected = cross_entropy(logits, batch.labels) + share * divergence(module, normal_divergence) / 500
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("spec", SPECS)
def test_without_a_flow_it_is_ffgu(spec):
    ours, theirs, batch = MNFG(samples=3, flow_length=0), FFGU(samples=3), batch_for(spec)
    module = ours.build(spec)
    plain = theirs.build(spec)
    plain.load_state_dict(module.state_dict())
    both = []
    for method, network in ((ours, module), (theirs, plain)):
        torch.manual_seed(3)
        loss, logits = method.objective(network.train(), batch, 1.0, 100)
        prediction = method.predict(network.eval(), batch.inputs, torch.Generator().manual_seed(4))
        both.append((loss, logits, prediction.probabilities, network(batch.inputs)))
    assert all(torch.equal(one, other) for one, other in zip(*both, strict=True))


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("count", [1, 5])
def test_prediction_is_the_mean_over_drawn_networks(spec, count):
    method = MNFG(samples=3, initial_sigma=0.3)
    module, inputs = method.build(spec).eval(), batch_for(spec, count).inputs
    prediction = method.predict(module, inputs, torch.Generator().manual_seed(5))
    generator, total = torch.Generator().manual_seed(5), 0
    for _ in range(3):
        with use_sampled_weights(module, generator):
            total = total + module(inputs).softmax(1)
    torch.testing.assert_close(prediction.probabilities, total / 3)
    torch.testing.assert_close(prediction.probabilities.sum(1), torch.ones(count))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"samples": 0}, "samples must be a whole number from 1 to 10000, got 0"),
        ({"warm_up_epochs": -1}, "warm_up_epochs must be a number from 0 on, got -1"),
        ({"initial_sigma": 2}, "initial_sigma must be above 0 and at most 1, got 2"),
        ({"flow_length": -1}, "flow_length must be a whole number from 0 on, got -1"),
        ({"flow_hidden": 0}, "flow_hidden must be a whole number from 1 on, got 0"),
        ({"flow_hidden": 2.5}, "flow_hidden must be a whole number from 1 on, got 2.5"),
    ],
)
def test_what_does_not_fit(settings, reason):
    with pytest.raises(ev.InputError, match=reason):
        MNFG(**settings)


def test_the_auxiliary_flow_may_be_larger():
    spec = MLPSpec(4, 2, hidden=(3,))
    flows = [
        module
        for module in MNFG(flow_hidden=5, auxiliary_hidden=7).build(spec).modules()
        if hasattr(module, "inverse")
    ]
    assert flows
    for flow in flows:
        assert {step.hidden.bias.numel() for step in flow.flow.steps} == {5}
        assert {step.hidden.bias.numel() for step in flow.inverse.steps} == {7}
    same = MNFG(flow_hidden=5).build(spec)
    assert sum(p.numel() for p in same.parameters()) < sum(
        p.numel() for p in MNFG(flow_hidden=5, auxiliary_hidden=7).build(spec).parameters()
    )
