"""FFGU, and FFLU where it is the same but for its prior."""

import itertools
import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import nescio as ev
from nescio.encoders import LeNetSpec, MLPSpec
from nescio.methods import FFGU, FFLU, Batch
from nescio.methods.baselines._bayesian import (
    bayesian_layers,
    divergence,
    log_uniform_divergence,
    normal_divergence,
    use_sampled_weights,
)

METHODS = {"ffgu": (FFGU, normal_divergence), "fflu": (FFLU, log_uniform_divergence)}
SPECS = [MLPSpec(5, 2), LeNetSpec(1, 16, 16, 10, filters=(2, 3), hidden=4)]


@pytest.fixture(params=METHODS)
def kind(request):
    return METHODS[request.param]


def batch_for(spec, count=8):
    torch.manual_seed(0)
    return Batch(torch.randn(count, *spec.input_shape), torch.arange(count) % spec.num_classes)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize(("epoch", "share"), [(0.0, 0.0), (3.0, 0.3), (20.0, 1.0)])
def test_the_objective_is_cross_entropy_and_a_share_of_the_divergence(kind, spec, epoch, share):
    method, prior = kind
    module, batch = method().build(spec), batch_for(spec)
    torch.manual_seed(2)
    loss, logits = method(warm_up_epochs=10).objective(module, batch, epoch, num_train=500)
    torch.manual_seed(2)
    assert torch.equal(logits, module(batch.inputs))
    expected = cross_entropy(logits, batch.labels) + share * divergence(module, prior) / 500
    torch.testing.assert_close(loss, expected)


def test_without_a_warm_up_the_divergence_counts_from_the_start(kind):
    method, prior = kind
    module, batch = method().build(SPECS[0]), batch_for(SPECS[0])
    loss, logits = method().objective(module, batch, 0.0, num_train=50)
    torch.testing.assert_close(loss, cross_entropy(logits, batch.labels) + divergence(module, prior) / 50)


def test_held_out_samples_are_measured_without_the_divergence(kind):
    method, batch = kind[0](), batch_for(SPECS[0])
    loss, logits = method.objective(method.build(SPECS[0]).eval(), batch, 5.0, num_train=50)
    torch.testing.assert_close(loss, cross_entropy(logits, batch.labels))


def test_every_layer_is_bayesian_and_starts_as_told(kind):
    module = kind[0](initial_sigma=0.03).build(SPECS[1])
    assert len(bayesian_layers(module)) == 4
    assert not [layer for layer in module.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    for layer in bayesian_layers(module):
        assert layer.weight_log_sigma.exp().mean().item() == pytest.approx(0.03)


def test_training_is_noisy_and_evaluation_is_not(kind):
    method, batch = kind[0](initial_sigma=0.3), batch_for(SPECS[0])
    module = method.build(SPECS[0])
    one, two = (method.objective(module.train(), batch, 0.0, 10)[1] for _ in range(2))
    assert not torch.allclose(one, two)
    one, two = (method.objective(module.eval(), batch, 0.0, 10)[1] for _ in range(2))
    assert torch.equal(one, two)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("count", [1, 5])
def test_prediction_is_the_mean_over_drawn_networks(kind, spec, count):
    method = kind[0](samples=3, initial_sigma=0.3)
    module, inputs = method.build(spec).eval(), batch_for(spec, count).inputs
    prediction = method.predict(module, inputs, torch.Generator().manual_seed(5))
    generator, total = torch.Generator().manual_seed(5), 0
    for _ in range(3):
        with use_sampled_weights(module, generator):
            total = total + module(inputs).softmax(1)
    torch.testing.assert_close(prediction.probabilities, total / 3)
    torch.testing.assert_close(prediction.probabilities.sum(1), torch.ones(count))


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("count", [1, 5])
def test_every_sample_is_another_network_and_the_generator_decides_which(kind, spec, count):
    method = kind[0](samples=3, initial_sigma=0.3)
    module, inputs, logits = method.build(spec).eval(), batch_for(spec, count).inputs, []
    # Logits, as the probabilities of networks that are sure of the same class are the same whatever is drawn.
    module.register_forward_hook(lambda _module, _inputs, outputs: logits.append(outputs))
    for seed in (5, 5, 6):
        method.predict(module, inputs, torch.Generator().manual_seed(seed))
    first, again, other = torch.stack(logits).split(3)
    assert torch.equal(first, again)
    drawn = torch.cat([first, other])  # (6, count, num_classes)
    for one, two in itertools.combinations(drawn, 2):
        assert not torch.allclose(one, two)


def test_a_sample_costs_one_forward_pass(kind):
    method, passes = kind[0](samples=7), []
    module = method.build(SPECS[0]).eval()
    module.register_forward_hook(lambda *_: passes.append(1))
    method.predict(module, batch_for(SPECS[0]).inputs, torch.Generator())
    assert len(passes) == 7


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"samples": 0}, "samples must be a whole number from 1 to 10000, got 0"),
        ({"samples": 2.5}, "samples must be a whole number"),
        ({"warm_up_epochs": -1}, "warm_up_epochs must be a number from 0 on, got -1"),
        ({"initial_sigma": 0.0}, "initial_sigma must be above 0 and at most 1, got 0.0"),
        ({"initial_sigma": math.nan}, "initial_sigma must be"),
    ],
)
def test_what_does_not_fit(kind, settings, reason):
    with pytest.raises(ev.InputError, match=reason):
        kind[0](**settings)


def test_a_plain_network_is_refused(kind):
    spec = SPECS[0]
    with pytest.raises(ev.InputError, match="network must have Bayesian layers"):
        kind[0]().objective(spec.build(), batch_for(spec), 0.0, 10)
    with pytest.raises(ev.InputError, match="network must have Bayesian layers"):
        kind[0]().predict(spec.build(), batch_for(spec).inputs, torch.Generator())
