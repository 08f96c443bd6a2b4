import copy
import itertools
import math
import threading

import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm
from torch import nn
from torch.nn import functional

import nescio as ev
from nescio.methods.baselines._bayesian import (
    LEAST_VARIANCE,
    bayesian_layers,
    divergence,
    gaussian_convolution,
    gaussian_linear,
    log_uniform_divergence,
    noise_like,
    normal_divergence,
    perturbed,
    use_sampled_weights,
)

LAYERS = {
    "dense": (lambda: gaussian_linear(4, 3, sigma=0.1), (4,)),
    "few places": (lambda: gaussian_convolution(2, 3, 5, stride=1, padding=1, sigma=0.1), (2, 6, 6)),
    "many places": (lambda: gaussian_convolution(1, 3, 2, stride=2, padding=1, sigma=0.1), (1, 7, 6)),
}


def made(kind):
    """A layer with parameters that are all different, and one input (1, ...) for it."""
    torch.manual_seed(0)
    make, shape = LAYERS[kind]
    layer = make().double()
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5 - (1 if "sigma" in name else 0))
    return layer, torch.randn(1, *shape, dtype=torch.float64)


def outputs_of_drawn(layer, inputs, count):
    generator = torch.Generator().manual_seed(1)
    rows = []
    for _ in range(count):
        with use_sampled_weights(layer, generator), torch.no_grad():
            rows.append(layer(inputs)[0])
    return torch.stack(rows)


def exact_mean_and_variance(layer, inputs):
    mean = layer.operation(inputs, layer.weight, layer.bias)
    sigmas = layer.weight_log_sigma.exp(), layer.bias_log_sigma.exp()
    return mean[0], layer.operation(inputs.square(), *(sigma.square() for sigma in sigmas))[0]


def test_the_gaussian_divergence_is_torchs():
    torch.manual_seed(0)
    mean, log_sigma = torch.randn(2, 7, 5, dtype=torch.float64)
    posterior = torch.distributions.Normal(mean, log_sigma.exp())
    expected = torch.distributions.kl_divergence(posterior, torch.distributions.Normal(0.0, 1.0)).sum()
    torch.testing.assert_close(normal_divergence(mean, log_sigma), expected)
    pairs = zip(mean.flatten().tolist(), log_sigma.flatten().tolist(), strict=True)
    naive = sum(0.5 * (math.exp(2 * s) + m * m - 1 - 2 * s) for m, s in pairs)
    assert normal_divergence(mean, log_sigma).item() == pytest.approx(naive)


def exact_log_uniform(log_ratio):
    """E log|1 + sqrt(a) x| - 1/2 log a, less its limit for a -> infinity, E log|x|; x is standard normal."""
    sigma = math.exp(log_ratio / 2)
    pole = -1 / sigma
    points = sorted(
        {-12.0, *(pole + step for step in (-1, -1e-3, 0, 1e-3, 1) if abs(pole + step) < 12), 12.0}
    )
    mean_log = sum(
        quad(lambda x: norm.pdf(x) * math.log(abs(1 + sigma * x) or 1e-300), low, high, limit=200)[0]
        for low, high in itertools.pairwise(points)
    )
    limit = -(math.log(2) + 0.5772156649015329) / 2
    return mean_log - log_ratio / 2 - limit


@pytest.mark.parametrize("log_ratio", [step / 2 for step in range(-16, 17)])
def test_the_log_uniform_divergence_is_near_the_integral(log_ratio):
    mean = torch.tensor(0.7, dtype=torch.float64)
    log_sigma = mean.log() + log_ratio / 2
    assert abs(log_uniform_divergence(mean, log_sigma).item() - exact_log_uniform(log_ratio)) < 0.01


def test_the_log_uniform_divergence_does_not_care_for_scale_and_sign():
    mean, log_sigma = torch.randn(2, 50, dtype=torch.float64)
    scaled = log_uniform_divergence(-3 * mean, log_sigma + math.log(3))
    torch.testing.assert_close(log_uniform_divergence(mean, log_sigma), scaled)


@pytest.mark.parametrize("mean", [0.0, 1e-30, 1e-15, 1e-6, -1e-3])
@pytest.mark.parametrize("log_sigma", [-5.0, 0.0, 10.0])
def test_the_log_uniform_divergence_ends_at_zero(mean, log_sigma):
    parameters = [torch.tensor([value], requires_grad=True) for value in (mean, log_sigma)]
    value = log_uniform_divergence(*parameters)
    assert 0 <= value.item() < 0.02
    value.backward()
    exact = [parameter.detach().double().requires_grad_() for parameter in parameters]
    log_uniform_divergence(*exact).backward()
    for narrow, wide in zip(parameters, exact, strict=True):
        assert narrow.grad.item() == pytest.approx(wide.grad.item(), rel=1e-4, abs=1e-12)


@pytest.mark.parametrize("prior", [normal_divergence, log_uniform_divergence])
def test_float32_sums_millions_of_weights(prior):
    generator = torch.Generator().manual_seed(0)
    mean = 0.05 * torch.randn(3_000_000, generator=generator)
    log_sigma = -3 + torch.randn(3_000_000, generator=generator)
    assert prior(mean, log_sigma).item() == pytest.approx(
        prior(mean.double(), log_sigma.double()).item(), rel=1e-6
    )


def test_gradients_of_perturbed():
    torch.manual_seed(0)
    mean, variance, noise = torch.randn(3, 4, 5, dtype=torch.float64)
    arguments = (mean.requires_grad_(), variance.exp().requires_grad_(), noise)
    assert torch.autograd.gradcheck(perturbed, arguments)
    torch.testing.assert_close(perturbed(*arguments), mean + arguments[1].sqrt() * noise)


def test_no_variance_at_all():
    mean, noise = torch.randn(2, 6)
    variance = torch.zeros(6, requires_grad=True)
    output = perturbed(mean, variance, noise)
    torch.testing.assert_close(output, mean, atol=10 * math.sqrt(LEAST_VARIANCE), rtol=0)
    output.sum().backward()
    assert variance.grad.isfinite().all()


@pytest.mark.parametrize("kind", LAYERS)
def test_inputs_of_zero_give_finite_gradients(kind):
    layer, inputs = made(kind)
    layer = layer.float().train()
    with torch.no_grad():
        layer.bias_log_sigma.fill_(-60)
    layer(torch.zeros(3, *inputs.shape[1:])).square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


@pytest.mark.parametrize("kind", ["dense", "few places"])
def test_outputs_are_the_mean_and_a_sigma_for_each_unit_of_noise(kind, monkeypatch):
    layer, inputs = made(kind)
    mean, variance = exact_mean_and_variance(layer, inputs)
    monkeypatch.setattr("nescio.methods.baselines._bayesian.noise_like", torch.ones_like)
    torch.testing.assert_close(layer.train()(inputs)[0], mean + variance.sqrt())


@pytest.mark.parametrize("kind", LAYERS)
def test_training_draws_what_sampled_weights_give(kind):
    layer, inputs = made(kind)
    mean, variance = exact_mean_and_variance(layer, inputs)
    count = 20_000
    with torch.no_grad():
        trained = layer.train()(inputs.expand(count, *inputs.shape[1:]))
    for rows in (trained, outputs_of_drawn(layer.eval(), inputs, 1500)):
        error = (variance / len(rows)).sqrt()
        assert ((rows.mean(0) - mean).abs() < 5 * error).all()
        assert ((rows.var(0) / variance - 1).abs() < 5 * math.sqrt(2 / len(rows))).all()


def test_drawn_filters_tie_the_places_of_a_sample_together():
    layer, inputs = made("many places")
    with torch.no_grad():
        trained = layer.train()(inputs.expand(20_000, *inputs.shape[1:])).flatten(1)
    drawn = outputs_of_drawn(layer.eval(), inputs, 1500).flatten(1)
    torch.testing.assert_close(trained.T.cov(), drawn.T.cov(), atol=0.3, rtol=0)
    assert trained.T.cov().fill_diagonal_(0).abs().max() > 1


@pytest.mark.parametrize("kind", LAYERS)
def test_a_weight_for_each_sample(kind):
    layer, _ = made(kind)
    inputs = torch.randn(5, *LAYERS[kind][1], dtype=torch.float64)
    weights = torch.randn(5, *layer.weight.shape, dtype=torch.float64)
    biases = torch.randn(5, *layer.bias.shape, dtype=torch.float64)
    one_by_one = [layer.operation(x[None], w, b)[0] for x, w, b in zip(inputs, weights, biases, strict=True)]
    torch.testing.assert_close(
        layer.operation.apply_per_example(inputs, weights, biases), torch.stack(one_by_one)
    )


def test_evaluation_uses_the_means():
    torch.manual_seed(0)
    layer = gaussian_convolution(2, 3, 5, stride=2, padding=1, sigma=0.5).eval()
    plain = nn.Conv2d(2, 3, 5, stride=2, padding=1)
    plain.load_state_dict({"weight": layer.weight, "bias": layer.bias})
    inputs = torch.randn(4, 2, 9, 9)
    assert torch.equal(layer(inputs), plain(inputs))


def test_sampled_weights_hold_for_the_block_and_the_batch():
    torch.manual_seed(0)
    network = nn.Sequential(
        gaussian_linear(4, 5, sigma=0.3), nn.ReLU(), gaussian_linear(5, 2, sigma=0.3)
    ).eval()
    inputs = torch.randn(1, 4).expand(3, 4)
    with use_sampled_weights(network, torch.Generator().manual_seed(7)):
        first, again = network(inputs), network(inputs)
    with use_sampled_weights(network, torch.Generator().manual_seed(7)):
        repeated = network(inputs)
    with use_sampled_weights(network, torch.Generator().manual_seed(8)):
        other = network(inputs)
    assert torch.equal(first, again)
    assert torch.equal(first, repeated)
    assert torch.equal(first[0], first[2])
    assert not torch.allclose(first, other)
    assert not torch.allclose(first, network(inputs))


def test_sampled_weights_end_with_an_error_too():
    layer, inputs = made("dense")
    with pytest.raises(ZeroDivisionError), use_sampled_weights(layer.eval(), None):
        1 / 0  # noqa: B018
    torch.testing.assert_close(layer(inputs), functional.linear(inputs, layer.weight, layer.bias))


def test_another_thread_keeps_its_own_weights():
    layer, inputs = made("dense")
    elsewhere = []
    with use_sampled_weights(layer.eval(), torch.Generator().manual_seed(0)):
        thread = threading.Thread(target=lambda: elsewhere.append(layer(inputs)))
        thread.start()
        thread.join()
        assert not torch.allclose(elsewhere[0], layer(inputs))
    assert torch.equal(elsewhere[0], layer(inputs))


@pytest.mark.parametrize("kind", LAYERS)
def test_gradients_reach_everything_in_training(kind):
    layer, inputs = made(kind)
    inputs = inputs.repeat(3, *[1] * (inputs.ndim - 1)).requires_grad_()
    layer.train()(inputs).square().sum().backward()
    assert inputs.grad.abs().sum() > 0
    assert all(parameter.grad.abs().sum() > 0 for parameter in layer.parameters())


def test_the_divergence_of_a_network_is_that_of_its_parts():
    layers = [made(kind)[0] for kind in LAYERS]
    total = sum(
        normal_divergence(mean, log_sigma)
        for layer in layers
        for mean, log_sigma in ((layer.weight, layer.weight_log_sigma), (layer.bias, layer.bias_log_sigma))
    )
    torch.testing.assert_close(divergence(nn.Sequential(*layers), normal_divergence), total)


@pytest.mark.parametrize("kind", LAYERS)
def test_bfloat16(kind):
    layer, inputs = made(kind)
    layer, inputs = layer.float().train(), inputs.float().expand(500, *inputs.shape[1:])
    alone = divergence(layer, normal_divergence)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = layer(inputs)
        assert divergence(layer, normal_divergence) == alone
    assert outputs.dtype == torch.bfloat16
    outputs.float().square().mean().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())
    mean, variance = exact_mean_and_variance(layer.double(), inputs[:1].double())
    assert (
        (outputs.double().mean(0) - mean).abs() < 5 * (variance / 500).sqrt() + 0.02 * (1 + mean.abs())
    ).all()


@pytest.mark.parametrize("kind", ["few places", "many places"])
def test_channels_last_stays(kind):
    layer, inputs = made(kind)
    layer = layer.to(memory_format=torch.channels_last)
    inputs = inputs.repeat(4, 1, 1, 1).contiguous(memory_format=torch.channels_last)
    for mode in (True, False):
        assert layer.train(mode)(inputs).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_noise_is_standard_normal_and_lies_like_the_outputs(dtype):
    torch.manual_seed(0)
    outputs = torch.empty(8, 20, 30, 40, dtype=dtype).contiguous(memory_format=torch.channels_last)
    noise = noise_like(outputs)
    assert (noise.shape, noise.dtype, noise.stride()) == (outputs.shape, dtype, outputs.stride())
    values = noise.double().flatten()
    assert abs(values.mean()) < 5 / math.sqrt(len(values))
    assert abs(values.var() - 1) < 5 * math.sqrt(2 / len(values)) + 1e-3


def test_there_and_back_through_a_state():
    layer, inputs = made("dense")
    other = gaussian_linear(4, 3, sigma=0.5).double()
    other.load_state_dict(copy.deepcopy(layer.state_dict()))
    with use_sampled_weights(layer.eval(), torch.Generator().manual_seed(3)):
        expected = layer(inputs)
    with use_sampled_weights(other.eval(), torch.Generator().manual_seed(3)):
        assert torch.equal(other(inputs), expected)


def test_where_it_starts():
    torch.manual_seed(0)
    layer = gaussian_linear(400, 300, sigma=0.02)
    torch.testing.assert_close(layer.weight_log_sigma.exp(), torch.full((300, 400), 0.02))
    assert layer.weight.std().item() == pytest.approx(math.sqrt(2 / 400), rel=0.01)
    assert not layer.bias.any()
    assert repr(layer) == "GaussianLayer(weight=(300, 400))"


def test_a_network_without_bayesian_layers_is_refused():
    with pytest.raises(ev.InputError, match="network must have Bayesian layers"):
        bayesian_layers(nn.Linear(2, 2))
