import mpmath as mp
import pytest
import torch
from tests.training.small import blobs
from torch import nn

import nescio as ev
from nescio.encoders import MLPSpec, SequentialEncoder
from nescio.inference.model import TrainedModel
from nescio.methods import FEDL, Batch
from nescio.methods.evidential.fedl import FlexibleNetwork, flexible_loss, flexible_moments

EXTREMES = [
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    [5.0, -3.0, -1.0, 8.0, -2.0, 0.5, 3.0],
    [-10.0, -10.0, -10.0, 40.0, -40.0, 0.0, 1000.0],
    [30.0, 30.0, -10.0, -1.0, 2.0, 3.0, -60.0],
    [12.0, -9.0, -9.0, 30.0, 0.0, 0.0, 12.0],
    [3e38, -3e38, 0.0, 3e38, -3e38, 1.0, -3e38],
    [-3e38, -3e38, -3e38, 1.0, 1.0, 1.0, 3e38],
]


def exact(outputs, label):
    """The mean, the sum of the variances and the loss as printed."""
    with mp.workdps(80):
        given = [mp.mpf(value) for value in outputs]
        alpha = [mp.exp(min(max(z, -10), 30)) for z in given[:3]]
        top = max(given[3:6])
        weights = [mp.exp(z - top) for z in given[3:6]]
        p = [weight / mp.fsum(weights) for weight in weights]
        tau = min(given[6] if given[6] > 200 else mp.log1p(mp.exp(given[6])), mp.mpf(10) ** 15)
        total = mp.fsum(alpha) + tau
        mean = [(a + tau * q) / total for a, q in zip(alpha, p, strict=True)]
        variance = [
            mu * (1 - mu) / (total + 1) + tau**2 * q * (1 - q) / (total * (total + 1))
            for mu, q in zip(mean, p, strict=True)
        ]
        loss = mp.fsum(variance)
        for k in range(3):
            y = int(k == label)
            loss += (y - mean[k]) ** 2 + (y - p[k]) ** 2
        return [float(mu) for mu in mean], float(mp.fsum(variance)), float(loss)


@pytest.mark.parametrize("outputs", EXTREMES)
@pytest.mark.parametrize("label", [0, 2])
def test_moments_and_loss_are_exact_for_any_outputs(outputs, label):
    given = torch.tensor([outputs], dtype=torch.float64)
    mean, variance, loss = exact(given[0].tolist(), label)
    moments = flexible_moments(given)
    assert moments.mean[0].tolist() == pytest.approx(mean, rel=1e-12, abs=1e-300)
    assert float(moments.variance.sum()) == pytest.approx(variance, rel=1e-12, abs=1e-300)
    assert float(flexible_loss(moments, torch.tensor([label]))) == pytest.approx(loss, rel=1e-12, abs=1e-300)
    narrow = flexible_loss(flexible_moments(given.float()), torch.tensor([label]))
    assert float(narrow) == pytest.approx(loss, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize("outputs", EXTREMES)
def test_gradients_are_finite_for_any_outputs(outputs):
    given = torch.tensor([outputs], requires_grad=True)
    flexible_loss(flexible_moments(given), torch.tensor([1])).sum().backward()
    assert bool(given.grad.isfinite().all())


def test_gradcheck():
    torch.manual_seed(0)
    outputs = 3 * torch.randn(5, 9, dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 3, 0])

    def losses(given):
        return flexible_loss(flexible_moments(given), labels)

    assert torch.autograd.gradcheck(losses, outputs.requires_grad_())


def test_the_moments_are_those_of_the_mixture():
    """A flexible Dirichlet is sum_k p_k Dirichlet(alpha + tau e_k): its moments by those of its parts."""
    outputs = torch.tensor([[0.3, 1.2, -0.5, 0.1, 0.9, -0.4, 1.5]], dtype=torch.float64)
    alpha = outputs[0, :3].exp()
    p = outputs[0, 3:6].softmax(0)
    tau = nn.functional.softplus(outputs[0, 6])
    first = torch.zeros(3, dtype=torch.float64)
    second = torch.zeros(3, dtype=torch.float64)
    for k in range(3):
        concentration = alpha.clone()
        concentration[k] += tau
        part = torch.distributions.Dirichlet(concentration)
        first += p[k] * part.mean
        second += p[k] * (part.variance + part.mean.square())
    moments = flexible_moments(outputs)
    torch.testing.assert_close(moments.mean[0], first)
    torch.testing.assert_close(moments.variance[0], second - first.square())


def test_the_uncertainty_is_a_share_of_the_most_that_it_can_be():
    torch.manual_seed(0)
    outputs = 20 * torch.randn(4000, 9)
    moments = flexible_moments(outputs)
    assert float((moments.variance.sum(1) * 4 / 3).max()) <= 1 + 1e-12
    # One of four classes for certain, nothing known of which: all mass on the corners.
    corners = torch.tensor([[-10.0, -10.0, -10.0, -10.0, 0.0, 0.0, 0.0, 0.0, 1e6]])
    assert float(flexible_moments(corners).variance.sum() * 4 / 3) == pytest.approx(1, abs=1e-5)


def test_without_tau_it_is_a_dirichlet():
    outputs = torch.tensor([[1.0, 0.5, -1.0, 3.0, 0.0, 0.0, -700.0]], dtype=torch.float64)
    dirichlet = torch.distributions.Dirichlet(outputs[0, :3].exp())
    moments = flexible_moments(outputs)
    torch.testing.assert_close(moments.mean[0], dirichlet.mean)
    torch.testing.assert_close(moments.variance[0], dirichlet.variance)


def test_soft_labels_mean_what_hard_ones_do():
    moments = flexible_moments(torch.randn(6, 7, generator=torch.Generator().manual_seed(0)))
    labels = torch.arange(6) % 3
    soft = nn.functional.one_hot(labels, 3).float()
    torch.testing.assert_close(flexible_loss(moments, soft), flexible_loss(moments, labels))


def test_objective_and_prediction_read_the_same_outputs():
    torch.manual_seed(0)
    method = FEDL(head_hidden=8)
    module = method.build(MLPSpec(5, 3, hidden=(6,))).eval()
    batch = Batch(torch.randn(6, 5), torch.arange(6) % 3)
    loss, logits = method.objective(module, batch, 0.0, 6)
    outputs = module(batch.inputs, all_heads=True)
    assert outputs.shape == (6, 7)
    moments = flexible_moments(outputs)
    torch.testing.assert_close(loss, flexible_loss(moments, batch.labels).mean().float())
    torch.testing.assert_close(module(batch.inputs), logits)
    prediction = method.predict(module, batch.inputs, torch.Generator())
    torch.testing.assert_close(prediction.probabilities, logits.softmax(1))
    torch.testing.assert_close(prediction.probabilities, method.interpret(logits).probabilities)
    torch.testing.assert_close(prediction.uncertainty, (moments.variance.sum(1) * 3 / 2).float())


def test_the_encoder_and_the_first_head_are_normalised_the_others_not():
    names = list(FEDL().build(MLPSpec(5, 3, hidden=(6,))).state_dict())
    assert "network.0.parametrizations.weight.original" in names
    normalised = [name for name in names if "original" in name and ".alpha." in name]
    assert len(normalised) == 1
    assert not [name for name in names if "original" in name and (".share." in name or ".tau." in name)]


@pytest.mark.filterwarnings("ignore")  # of the exporter, about itself
def test_it_is_exported_with_its_own_uncertainty(tmp_path):
    import onnxruntime

    rows = blobs()
    table = ev.data.Table(rows.read(), rows.labels, ("a", "b", "c"), "blobs")
    settings = ev.TrainingSettings(epochs=4, batch_size=32, learning_rate=1e-2)
    model = TrainedModel.train(table, FEDL(), MLPSpec(5, 3, hidden=(16,)), settings)
    inputs = torch.cat((rows.read()[:20], 30 * rows.read()[:5]))
    expected = model.predict(inputs)
    model.export_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    assert names == ["probabilities", "uncertainty"]
    found = session.run(None, {session.get_inputs()[0].name: inputs.float().numpy()})
    for name, value in zip(names, found, strict=True):
        torch.testing.assert_close(torch.from_numpy(value), getattr(expected, name), rtol=0, atol=1e-5)


def test_a_module_of_the_users_own_gets_two_more_heads():
    network = SequentialEncoder(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    module = FEDL(head_hidden=4).check_module(network)
    assert isinstance(module, FlexibleNetwork)
    assert module(torch.zeros(2, 5)).shape == (2, 3)
    assert FEDL(head_hidden=4).check_module(module) is module
    with pytest.raises(ev.InputError, match="with head_hidden=4, and the method has 8"):
        FEDL(head_hidden=8).check_module(module)
    with pytest.raises(ev.InputError, match=r"needs an nn.Linear as the head"):
        FEDL().check_module(SequentialEncoder(nn.Linear(5, 3), nn.ReLU()))


def test_bad_settings_are_refused():
    with pytest.raises(ev.InputError, match="head_hidden"):
        FEDL(head_hidden=0)
    with pytest.raises(ev.InputError, match="spectral_norm"):
        FEDL(spectral_norm="yes")
    with pytest.raises(ev.InputError, match="set spectral_norm to false"):
        FEDL().encoders(FEDL().build(MLPSpec(5, 3)))
