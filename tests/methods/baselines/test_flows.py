import math

import pytest
import torch
from numpy.polynomial.hermite_e import hermegauss
from torch.distributions import Normal

from nescio.methods.baselines._bayesian import (
    divergence,
    gaussian_convolution,
    gaussian_linear,
    normal_divergence,
    use_sampled_weights,
)
from nescio.methods.baselines._flows import Flow, Multiplier, flow_convolution, flow_linear

SETTINGS = {"sigma": 0.1, "hidden": 6, "length": 2}
LAYERS = {
    "dense": (lambda: flow_linear(4, 3, **SETTINGS), (4,)),
    "few places": (lambda: flow_convolution(2, 3, 5, padding=1, **SETTINGS), (2, 6, 6)),
    "many places": (lambda: flow_convolution(1, 3, 2, stride=2, **SETTINGS), (1, 7, 6)),
}


def shaken(module, spread=0.4):
    """In float64, with parameters moved at random so that nothing is as it starts."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.double().parameters():
            parameter.add_(spread * torch.randn_like(parameter))
    return module


def made(kind):
    make, shape = LAYERS[kind]
    return shaken(make()), torch.randn(1, *shape, dtype=torch.float64)


@pytest.mark.parametrize("size", [1, 2, 5, 8])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_the_log_determinant_is_that_of_the_jacobian(size, length):
    flow = shaken(Flow(size, 7, length), spread=1)
    z = torch.randn(3, size, dtype=torch.float64)
    moved, log_determinant = flow.with_log_determinant(z)
    assert torch.equal(moved, flow(z))
    for row, expected in zip(z, log_determinant, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda one: flow(one[None])[0], row)
        torch.testing.assert_close(torch.linalg.slogdet(jacobian).logabsdet, expected)


def test_a_step_is_the_formula():
    flow = shaken(Flow(5, 7, 1), spread=1).requires_grad_(False)
    (step,) = flow.steps
    z = torch.randn(5, dtype=torch.float64)
    hidden = [math.tanh(float(step.hidden.weight[i] @ z[:2] + step.hidden.bias[i])) for i in range(7)]
    expected = z[:2].tolist()
    for j in range(3):
        gate = 1 / (
            1
            + math.exp(
                -float(step.gate.bias[j]) - sum(step.gate.weight[j, i] * h for i, h in enumerate(hidden))
            )
        )
        shift = float(step.shift.bias[j]) + sum(
            float(step.shift.weight[j, i]) * h for i, h in enumerate(hidden)
        )
        expected.append(gate * float(z[2 + j]) + (1 - gate) * shift)
    assert flow(z[None])[0].tolist() == pytest.approx(expected)


def test_two_steps_move_every_unit():
    z = torch.randn(2, 6, dtype=torch.float64)
    one, two = (shaken(Flow(6, 4, length))(z) for length in (1, 2))
    assert torch.equal(one[:, :3], z[:, :3])
    assert (two != z).all()


def test_z_starts_near_one():
    torch.manual_seed(0)
    multiplier = Multiplier(40, 50, 2)
    z = multiplier(2000)
    torch.testing.assert_close(z.mean(), torch.tensor(1.0), atol=0.02, rtol=0)
    assert 0.05 < z.std() < 0.15
    assert (multiplier.center() - 1).abs().max() < 0.1


def test_log_q_is_the_gaussians_less_the_determinant():
    multiplier = shaken(Multiplier(3, 5, 2)).requires_grad_(False)
    torch.manual_seed(1)
    draws = [multiplier.with_log_q()[1].item() for _ in range(400)]
    torch.manual_seed(2)
    start = multiplier.mean + multiplier.log_sigma.exp() * torch.randn(20_000, 3, dtype=torch.float64)
    density = Normal(multiplier.mean, multiplier.log_sigma.exp()).log_prob(start).sum(1)
    exact = density - multiplier.flow.with_log_determinant(start)[1]
    error = math.sqrt(torch.tensor(draws).var() / 400 + exact.var() / 20_000)
    assert abs(sum(draws) / 400 - exact.mean().item()) < 5 * error


def test_log_r_is_a_gaussian_after_the_inverse_flow():
    multiplier, reading = shaken(Multiplier(3, 5, 2)), torch.tensor(0.7, dtype=torch.float64)
    z = torch.randn(1, 3, dtype=torch.float64)
    base, log_determinant = multiplier.inverse.with_log_determinant(z)
    gaussian = Normal(multiplier.mean_scale * 0.7, (0.35 * multiplier.spread_scale).exp())
    expected = gaussian.log_prob(base).sum() + log_determinant[0]
    torch.testing.assert_close(multiplier.log_r(z, reading), expected)


@pytest.mark.parametrize("kind", LAYERS)
def test_what_r_sees_of_the_weights(kind, monkeypatch):
    layer, _ = made(kind)
    z = layer.multiplier(1).detach()
    monkeypatch.setattr(torch, "randn_like", torch.ones_like)
    sigma = layer.weight_log_sigma.exp()
    readings, reader = [], layer.multiplier.reader
    if layer.z_axis == 1:
        columns = [((z[0] * layer.weight[j]), sigma[j]) for j in range(3)]
    else:
        mean = (layer.weight * z[0].view(-1, 1, 1, 1)).reshape(3, -1)
        columns = list(zip(mean.T, sigma.reshape(3, -1).T, strict=True))
    for mean, spread in columns:
        readings.append(torch.tanh(reader @ mean + (reader * spread).square().sum().sqrt()).item())
    assert layer._reading(z).item() == pytest.approx(sum(readings) / len(readings))


@pytest.mark.parametrize("kind", LAYERS)
def test_evaluation_uses_the_means_of_z_and_of_the_weights(kind):
    layer, inputs = made(kind)
    z = layer.multiplier.center()[0]
    weight = layer.weight * (z if layer.z_axis == 1 else z.view(-1, 1, 1, 1))
    torch.testing.assert_close(layer.eval()(inputs), layer.operation(inputs, weight, layer.bias))


@pytest.mark.parametrize("kind", LAYERS)
def test_training_draws_what_sampled_weights_give(kind):
    layer, inputs = made(kind)
    with torch.no_grad():
        trained = layer.train()(inputs.expand(8000, *inputs.shape[1:])).flatten(1)
        generator, rows = torch.Generator().manual_seed(1), []
        for _ in range(1000):
            with use_sampled_weights(layer.eval(), generator):
                rows.append(layer(inputs)[0].flatten())
    drawn = torch.stack(rows)
    error = (trained.var(0) / 8000 + drawn.var(0) / 1000).sqrt()
    assert ((trained.mean(0) - drawn.mean(0)).abs() < 5 * error).all()
    fourth = (drawn - drawn.mean(0)).pow(4).mean(0) / drawn.var(0).square() - 1
    assert ((trained.var(0) / drawn.var(0) - 1).abs() < 5 * (fourth * (1 / 8000 + 1 / 1000)).sqrt()).all()


@pytest.fixture
def tiny():
    """Two weights that share nothing but the flow; the biases are as the prior has them."""
    layer = shaken(flow_linear(2, 1, sigma=0.4, hidden=4, length=2), spread=0.5)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.2, -0.8]]))
        layer.weight_log_sigma.fill_(math.log(0.4))
        layer.multiplier.log_sigma.fill_(math.log(0.5))
        layer.bias.zero_()
        layer.bias_log_sigma.zero_()
    return layer


@torch.no_grad()
def true_divergence(layer, count):
    """KL(q(W) || p(W)) and its error: W drawn, log q(W) by quadrature over z."""
    nodes, weights = (torch.from_numpy(part) for part in hermegauss(40))
    grid = torch.cartesian_prod(nodes, nodes)  # (1600, 2)
    log_weight = torch.cartesian_prod(weights, weights).prod(1).log() - math.log(2 * math.pi)
    multiplier = layer.multiplier
    means = multiplier.flow(multiplier.mean + multiplier.log_sigma.exp() * grid) * layer.weight
    generator = torch.Generator().manual_seed(5)
    drawn = torch.cat([layer.sample_weights(generator)[0] for _ in range(count)])  # (count, 2)
    sigma = layer.weight_log_sigma.exp()
    log_given = Normal(means, sigma).log_prob(drawn[:, None]).sum(2)  # (count, 1600)
    log_ratio = (log_given + log_weight).logsumexp(1) - Normal(0.0, 1.0).log_prob(drawn).sum(1)
    return log_ratio.mean().item(), log_ratio.std().item() / math.sqrt(count)


@torch.no_grad()
def bound(layer, count):
    values = torch.stack([layer.divergence(normal_divergence) for _ in range(count)])
    return values.mean().item(), values.std().item() / math.sqrt(count)


def test_the_bound_is_a_bound_and_a_fitted_r_brings_it_down(tiny):
    true, true_error = true_divergence(tiny, 1000)
    loose, loose_error = bound(tiny, 400)
    inverse = [
        parameter for name, parameter in tiny.named_parameters() if "inverse" in name or "scale" in name
    ]
    optimizer = torch.optim.Adam(inverse, lr=0.03)
    for _ in range(200):
        optimizer.zero_grad()
        tiny.divergence(normal_divergence).backward()
        optimizer.step()
    tight, tight_error = bound(tiny, 400)
    assert loose > true + 4 * math.hypot(loose_error, true_error)
    assert true - 4 * math.hypot(tight_error, true_error) < tight < loose
    assert tight - true < 0.7 * (loose - true)


@pytest.mark.parametrize(
    ("make", "plain", "shape"),
    [
        (flow_linear, gaussian_linear, (4, 3)),
        (flow_convolution, gaussian_convolution, (2, 3, 5)),
        (flow_convolution, gaussian_convolution, (2, 3, 2)),
    ],
)
def test_without_a_flow_it_is_the_gaussian_layer(make, plain, shape):
    torch.manual_seed(0)
    layer, gaussian = make(*shape, sigma=0.2, hidden=5, length=0), plain(*shape, sigma=0.3)
    gaussian.load_state_dict(layer.state_dict())
    inputs = torch.randn(6, 4) if plain is gaussian_linear else torch.randn(6, 2, 7, 7)
    outputs = []
    for one in (layer, gaussian):
        torch.manual_seed(3)
        trained = one.train()(inputs)
        with use_sampled_weights(one.eval(), torch.Generator().manual_seed(4)):
            outputs.append((trained, one(inputs), divergence(one, normal_divergence)))
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*outputs, strict=True))
    assert torch.equal(layer(inputs), gaussian(inputs))


@pytest.mark.parametrize("kind", LAYERS)
def test_gradients_reach_everything(kind):
    layer, inputs = made(kind)
    inputs = inputs.repeat(3, *[1] * (inputs.ndim - 1))
    loss = layer.train()(inputs).square().sum() + divergence(layer, normal_divergence)
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())
    assert all(parameter.grad.abs().sum() > 0 for parameter in layer.parameters())


def test_one_input_unit_is_enough():
    layer = flow_linear(1, 2, **SETTINGS)
    outputs = layer.train()(torch.randn(4, 1))
    (outputs.sum() + divergence(layer, normal_divergence)).backward()
    assert outputs.shape == (4, 2)
    assert layer.multiplier.mean.grad.abs().item() > 0


@pytest.mark.parametrize("kind", LAYERS)
def test_bfloat16(kind):
    layer, inputs = made(kind)
    layer, inputs = layer.float().train(), inputs.float().repeat(3, *[1] * (inputs.ndim - 1))
    with torch.autocast("cpu", torch.bfloat16):
        torch.manual_seed(0)
        outputs = layer(inputs)
        z = layer.multiplier(2)
        loss = divergence(layer, normal_divergence)
    assert (outputs.dtype, z.dtype, loss.dtype) == (torch.bfloat16, torch.float32, torch.float32)
    torch.manual_seed(0)
    torch.testing.assert_close(outputs.float(), layer(inputs), atol=0.1, rtol=0.1)
    (outputs.float().square().mean() + loss).backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


@pytest.mark.parametrize("kind", ["few places", "many places"])
def test_channels_last_stays(kind):
    layer, inputs = made(kind)
    layer = layer.to(memory_format=torch.channels_last)
    inputs = inputs.repeat(4, 1, 1, 1).contiguous(memory_format=torch.channels_last)
    for mode in (True, False):
        assert layer.train(mode)(inputs).is_contiguous(memory_format=torch.channels_last)


def test_there_and_back_through_a_state():
    layer, inputs = made("dense")
    other = flow_linear(4, 3, **SETTINGS).double()
    other.load_state_dict(layer.state_dict())
    with use_sampled_weights(layer.eval(), torch.Generator().manual_seed(3)):
        expected = layer(inputs)
    with use_sampled_weights(other.eval(), torch.Generator().manual_seed(3)):
        assert torch.equal(other(inputs), expected)
