import math

import mpmath as mp
import pytest
import torch
from tests.training.small import blobs
from torch import nn

import nescio as ev
from nescio.encoders import MLPSpec, SequentialEncoder
from nescio.inference.model import TrainedModel
from nescio.methods import Batch, NatPN
from nescio.methods.evidential.natpn import DensityHead, RadialStep, _tune_flow

EXTREMES = [
    [0.0, 0.0, 0.0],
    [5.0, -3.0, -1.0],
    [-10.0, -10.0, -10.0],
    [30.0, 29.0, -10.0],
    [-3e38, -3e38, -3e38],
    [3e38, 0.0, -3e38],
]


def exact_loss(logits, label, weight=1e-5):
    """psi(S) - psi(alpha_y) less the entropy of Dirichlet(alpha), as printed."""
    with mp.workdps(60):
        alpha = [mp.exp(min(max(mp.mpf(z), -10), 30)) + 1 for z in logits]
        total = mp.fsum(alpha)
        risk = mp.digamma(total) - mp.digamma(alpha[label])
        entropy = mp.fsum(mp.loggamma(a) for a in alpha) - mp.loggamma(total)
        entropy += (total - len(alpha)) * mp.digamma(total)
        entropy -= mp.fsum((a - 1) * mp.digamma(a) for a in alpha)
        return risk - mp.mpf(weight) * entropy


@pytest.mark.parametrize("logits", EXTREMES)
@pytest.mark.parametrize("label", [0, 1])
def test_the_loss_is_exact_for_any_logits(logits, label):
    given = torch.tensor([logits], dtype=torch.float64)
    found = float(NatPN()._losses(given, torch.tensor([label])))
    expected = float(exact_loss(given[0].tolist(), label))
    assert found == pytest.approx(expected, rel=1e-11)
    single = float(NatPN()._losses(given.float(), torch.tensor([label])))
    assert single == pytest.approx(expected, rel=1e-5)


def test_gradcheck():
    torch.manual_seed(0)
    logits = 4 * torch.randn(5, 4, dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 3, 0])
    method = NatPN(entropy_weight=0.1)
    assert torch.autograd.gradcheck(lambda z: method._losses(z, labels), logits.requires_grad_())
    torch.manual_seed(0)
    head = DensityHead(4, 3, latent_size=2, flow_length=3, log_budget=1.0).double()
    features = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(head, (features,))


@pytest.mark.parametrize("strength", [-5.0, 0.0, 3.0])
def test_a_radial_step_knows_its_determinant(strength):
    torch.manual_seed(0)
    step = RadialStep(3)
    nn.init.constant_(step.raw_strength, strength)
    place = torch.randn(4, 3, dtype=torch.float64)
    moved, log_determinant = step(place)
    for one, found in zip(place, log_determinant, strict=True):
        derivative = torch.autograd.functional.jacobian(lambda x: step(x[None])[0][0], one)
        assert found.item() == pytest.approx(torch.linalg.det(derivative).log().item(), abs=1e-9)
    assert moved.shape == place.shape


def test_a_flow_is_a_density():
    """Its integral over a plane is one."""
    torch.manual_seed(1)
    head = DensityHead(4, 3, latent_size=2, flow_length=4, log_budget=0.0)
    axis = torch.linspace(-12, 12, 801, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    with torch.no_grad():
        total = head.log_density(grid).exp().sum() * (axis[1] - axis[0]) ** 2
    assert float(total) == pytest.approx(1, abs=1e-4)


def test_without_a_flow_it_is_a_standard_normal_times_the_budget():
    head = DensityHead(4, 3, latent_size=2, flow_length=0, log_budget=2.0)
    features = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    latent = head.latent(features)
    normal = torch.distributions.Normal(0.0, 1.0).log_prob(latent).sum(1)
    evidence = head(features).exp()
    torch.testing.assert_close(evidence.sum(1), (normal + 2.0).exp())
    shares = head.classes(latent).softmax(1)
    torch.testing.assert_close(evidence / evidence.sum(1, keepdim=True), shares)


def test_the_budgets():
    for name, expected in (("normal", 8 * math.log(4 * math.pi)), ("exp", 16.0), ("exp-half", 8.0)):
        assert NatPN(budget=name).build(MLPSpec(4, 3)).head.log_budget == pytest.approx(expected)
    assert NatPN(budget="constant").build(MLPSpec(4, 3)).head.log_budget == 0


def test_far_from_all_samples_it_does_not_know():
    torch.manual_seed(0)
    method = NatPN(latent_size=4)
    module = method.build(MLPSpec(5, 3)).eval()
    far = torch.tensor([[1e3], [1e15], [3e37]]).expand(3, 5)
    with torch.no_grad():
        opinion = method.predict(module, far, torch.Generator())
        loss, _ = method.objective(module, Batch(far, torch.tensor([0, 1, 2])), 0.0, 3)
    assert bool((opinion.uncertainty > 0.9999).all())
    assert bool(loss.isfinite())


def test_objective_and_prediction_read_the_same_logits():
    torch.manual_seed(0)
    method = NatPN(latent_size=4)
    module = method.build(MLPSpec(5, 3)).eval()
    batch = Batch(torch.randn(6, 5), torch.arange(6) % 3)
    loss, logits = method.objective(module, batch, 0.0, 6)
    torch.testing.assert_close(loss, method._losses(logits, batch.labels).mean())
    opinion = method.predict(module, batch.inputs, torch.Generator())
    torch.testing.assert_close(opinion.evidence, logits.exp().clamp_min(math.exp(-10)))
    soft = nn.functional.one_hot(batch.labels, 3).float()
    torch.testing.assert_close(method._losses(logits, soft), method._losses(logits, batch.labels))


@pytest.mark.filterwarnings("ignore")  # of the exporter, about itself
def test_it_is_exported_with_its_density(tmp_path):
    import onnxruntime

    rows = blobs()
    table = ev.data.Table(rows.read(), rows.labels, ("a", "b", "c"), "blobs")
    settings = ev.TrainingSettings(epochs=4, batch_size=32, learning_rate=1e-2)
    model = TrainedModel.train(table, NatPN(flow_length=2), MLPSpec(5, 3, hidden=(16,)), settings)
    inputs = torch.cat((rows.read()[:20], 30 * rows.read()[:5]))
    expected = model.predict(inputs)
    model.export_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    assert names == ["probabilities", "belief", "uncertainty"]
    found = session.run(None, {session.get_inputs()[0].name: inputs.float().numpy()})
    for name, value in zip(names, found, strict=True):
        torch.testing.assert_close(torch.from_numpy(value), getattr(expected, name), rtol=0, atol=1e-5)


def test_a_module_of_the_users_own_gets_another_head():
    network = SequentialEncoder(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    module = NatPN(latent_size=2).check_module(network)
    assert module is network
    assert isinstance(module.head, DensityHead)
    assert NatPN(latent_size=2).check_module(module) is module
    for other in (NatPN(), NatPN(latent_size=2, flow_length=1), NatPN(latent_size=2, budget="exp")):
        with pytest.raises(ev.InputError, match="the density of another NatPN"):
            other.check_module(module)
    with pytest.raises(ev.InputError, match=r"needs an nn.Linear as the head"):
        NatPN().check_module(SequentialEncoder(nn.Linear(5, 3), nn.ReLU()))


def test_bad_settings_are_refused():
    with pytest.raises(
        ev.InputError, match=r"budget must be one of normal, exp, exp-half, constant, got 'all'"
    ):
        NatPN(budget="all")
    with pytest.raises(ev.InputError, match="latent_size"):
        NatPN(latent_size=0)
    with pytest.raises(ev.InputError, match="entropy_weight"):
        NatPN(entropy_weight=-1)


def test_the_flow_is_tuned_to_the_training_samples_and_nothing_else_is():
    rows = blobs()
    table = ev.data.Table(rows.read(), rows.labels, ("a", "b", "c"), "blobs")
    settings = ev.TrainingSettings(epochs=4, batch_size=32, learning_rate=1e-2)

    def trained(epochs):
        return TrainedModel.train(
            table, NatPN(tuning_epochs=epochs), MLPSpec(5, 3, hidden=(16,)), settings
        ).module

    plain = trained(0)
    tuned = trained(20)
    for name, weights in plain.state_dict().items():
        assert torch.equal(weights, tuned.state_dict()[name]) == ("flow" not in name), name
    inputs = (rows.read() - rows.read().mean(0)) / rows.read().std(0)
    with torch.no_grad():
        latent = plain.head.latent(plain.features(inputs))
        before = plain.head.log_density(latent).mean()
        after = tuned.head.log_density(latent).mean()
    assert float(after - before) > 0.1
    again = trained(20)
    for name, weights in tuned.state_dict().items():
        assert torch.equal(weights, again.state_dict()[name]), name


def test_samples_without_weight_do_not_count_when_the_flow_is_tuned():
    torch.manual_seed(0)
    latent = torch.randn(40, 2)
    far = latent + 5
    found = []
    for values, weights in (
        (latent, torch.ones(40)),
        (torch.cat((latent, far)), torch.cat((torch.ones(40), torch.zeros(40)))),
    ):
        torch.manual_seed(1)
        head = DensityHead(4, 3, latent_size=2, flow_length=2, log_budget=0.0)
        _tune_flow(head, values, weights, 60)
        found.append(head.log_density(latent).mean().item())
    assert found[1] == pytest.approx(found[0], abs=0.1)


def test_held_evidence_keeps_the_shares_of_the_classes():
    head = DensityHead(4, 3, latent_size=2, flow_length=0, log_budget=200.0)
    features = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    logits = head(features)
    torch.testing.assert_close(logits.logsumexp(1), torch.full((6,), 30.0))
    shares = head.classes(head.latent(features)).softmax(1)
    torch.testing.assert_close(logits.softmax(1), shares)
    (gradient,) = torch.autograd.grad(logits.logsumexp(1).sum(), features)
    assert bool(gradient.abs().sum() > 0)
