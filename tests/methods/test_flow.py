import pytest
import torch
from torch.nn.functional import cross_entropy

import evidentia as ev
from evidentia.data import Table
from evidentia.methods import FFGU, MNFG, Batch
from evidentia.model import TrainedModel
from evidentia.nets import LeNetSpec, MLPSpec
from evidentia.nets.bayesian import bayesian_layers, divergence, drawn_weights, normal_divergence
from evidentia.nets.flows import FlowLayer
from evidentia.training import TrainingSettings

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
    loss, logits = method.objective(module, batch, epoch, size=500)
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
        with drawn_weights(module, generator):
            total = total + module(inputs).softmax(1)
    torch.testing.assert_close(prediction.probabilities, total / 3)
    torch.testing.assert_close(prediction.probabilities.sum(1), torch.ones(count))


def test_read_is_softmax():
    logits = torch.randn(3, 4)
    torch.testing.assert_close(MNFG().read(logits).probabilities, logits.softmax(1))


@pytest.mark.parametrize("spec", SPECS)
def test_bfloat16_and_float64(spec):
    method, batch = MNFG(), batch_for(spec)
    module = method.build(spec)
    with torch.autocast("cpu", torch.bfloat16):
        loss, logits = method.objective(module, batch, 0.0, 100)
    assert (loss.dtype, logits.dtype) == (torch.float32, torch.float32)
    assert loss.isfinite()
    wide = batch._replace(inputs=batch.inputs.double())
    loss, logits = method.objective(module.double(), wide, 0.0, 100)
    assert (loss.dtype, logits.dtype) == (torch.float64, torch.float64)
    prediction = method.predict(module.eval(), wide.inputs, torch.Generator())
    assert prediction.probabilities.dtype == torch.float64


def test_it_learns_saves_and_loads(tmp_path):
    generator, labels, losses = torch.Generator().manual_seed(0), torch.arange(300) % 3, []
    centers = torch.tensor([[0.0, 3.0], [3.0, -2.0], [-3.0, -2.0]])
    features = centers[labels] + torch.randn(300, 2, generator=generator)
    settings = TrainingSettings(
        epochs=12, batch_size=30, learning_rate=1e-2, precision="float32", device="cpu"
    )
    model = TrainedModel.train(
        Table(features, labels, ("a", "b", "c"), "blobs"),
        MNFG(samples=5, flow_hidden=8),
        MLPSpec(2, 3, hidden=(16,)),
        settings,
        report=lambda line: losses.append(line["loss"]),
    )
    assert losses[-1] < 0.8 * losses[0]
    predictions = model.predict(features, generator=torch.Generator().manual_seed(1))
    assert (predictions.labels == labels).float().mean() > 0.95
    model.save(tmp_path / "model.safetensors")
    loaded = TrainedModel.load(tmp_path / "model.safetensors")
    assert loaded.method == model.method
    again = loaded.predict(features, generator=torch.Generator().manual_seed(1))
    assert torch.equal(again.probabilities, predictions.probabilities)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"samples": 0}, "samples must be a whole number from 1 on, got 0"),
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
