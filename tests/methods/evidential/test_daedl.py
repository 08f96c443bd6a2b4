import math

import mpmath as mp
import pytest
import torch
from tests.training.small import blobs, trained
from torch import nn

import nescio as ev
from nescio.encoders import LeNetSpec, MLPSpec, SequentialEncoder
from nescio.inference.model import TrainedModel
from nescio.methods import DAEDL, Batch, TwoStage
from nescio.methods.evidential.daedl import divergence_from_uniform

LEAST = mp.mpf("1e-6")


def exact_loss(logits, label, weight=0.05):
    """Equation 5 + weight KL[D(alpha~) || D(1)] with alpha = exp(z) + 1e-6, as printed."""
    with mp.workdps(60):
        alpha = [mp.exp(min(max(mp.mpf(z), -10), 30)) + LEAST for z in logits]
        strength = mp.fsum(alpha)
        risk = mp.mpf(0)
        for k, value in enumerate(alpha):
            p = value / strength
            risk += (int(k == label) - p) ** 2 + p * (1 - p) / (strength + 1)
        without = [mp.mpf(1) if k == label else value for k, value in enumerate(alpha)]
        return risk + mp.mpf(weight) * exact_divergence(without)


def exact_divergence(alpha):
    total = mp.fsum(alpha)
    value = mp.loggamma(total) - mp.loggamma(len(alpha))
    for a in alpha:
        value += (a - 1) * (mp.digamma(a) - mp.digamma(total)) - mp.loggamma(a)
    return value


EXTREMES = [
    [0.0, 0.0, 0.0],
    [5.0, -3.0, -1.0],
    [-10.0, -10.0, -10.0],
    [30.0, 30.0, -10.0],
    [1e-4, -1e-4, 2e-4],
    [12.0, 11.0, 0.5],
    [3e38, -3e38, 0.0],
]


@pytest.mark.parametrize("logits", EXTREMES)
@pytest.mark.parametrize("label", [0, 1])
def test_the_loss_is_exact_for_any_logits(logits, label):
    given = torch.tensor([logits], dtype=torch.float64)
    found = float(DAEDL()._losses(given, torch.tensor([label])))
    expected = float(exact_loss(given[0].tolist(), label))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-11)
    single = float(DAEDL()._losses(given.float(), torch.tensor([label])))
    assert single == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("logits", EXTREMES)
def test_gradients_are_finite_for_any_logits(logits):
    given = torch.tensor([logits], requires_grad=True)
    DAEDL()._losses(given, torch.tensor([1])).sum().backward()
    assert bool(given.grad.isfinite().all())


def test_gradcheck():
    torch.manual_seed(0)
    logits = 4 * torch.randn(5, 4, dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 3, 0])
    assert torch.autograd.gradcheck(lambda z: DAEDL()._losses(z, labels), logits.requires_grad_())


def test_the_divergence_is_zero_for_the_uniform_distribution():
    ones = torch.full((1, 5), 1 - 1e-6, dtype=torch.float64)
    assert float(divergence_from_uniform(ones)) == pytest.approx(0, abs=1e-12)


def test_soft_labels_mean_what_hard_ones_do():
    logits = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(6) % 3
    soft = nn.functional.one_hot(labels, 3).float()
    torch.testing.assert_close(DAEDL()._losses(logits, soft), DAEDL()._losses(logits, labels))


def test_a_prediction_is_scaled_by_the_density():
    module, _ = trained(DAEDL(), epochs=6)
    inputs = blobs(seed=1).read()
    module.eval()
    inputs = (inputs - inputs.mean(0)) / inputs.std(0)
    with torch.no_grad():
        prediction = DAEDL().predict(module, inputs, torch.Generator())
        features = module.features(inputs)
        logits = module(inputs)
        trust = module.second_stage.trust(features)
        alpha = (trust[:, None] * logits).exp()
    torch.testing.assert_close(prediction.probabilities, alpha / alpha.sum(1, keepdim=True))
    torch.testing.assert_close(prediction.uncertainty, (3 / alpha.sum(1)).clamp_max(1))
    assert torch.equal(prediction.labels, logits.argmax(1))
    assert 0 < float(trust.mean()) < 1


def test_far_from_all_samples_it_does_not_know_and_still_has_a_label():
    method = DAEDL()
    module, _ = trained(method, epochs=6)
    far = torch.full((2, 5), 1e4) * torch.tensor([[1.0], [-1.0]])
    with torch.no_grad():
        prediction = method.predict(module.eval(), far, torch.Generator())
    assert prediction.uncertainty.tolist() == [1.0, 1.0]
    assert prediction.is_vacuous.tolist() == [True, True]
    torch.testing.assert_close(prediction.probabilities, torch.full((2, 3), 1 / 3))
    assert torch.equal(prediction.labels, module(far).argmax(1))


@pytest.mark.filterwarnings("ignore")  # of the exporter, about itself
def test_it_is_saved_loaded_and_exported_with_its_density(tmp_path):
    import onnxruntime

    rows = blobs()
    table = ev.data.Table(rows.read(), rows.labels, ("a", "b", "c"), "blobs")
    settings = ev.TrainingSettings(epochs=4, batch_size=32, learning_rate=1e-2)
    model = TrainedModel.train(table, DAEDL(), MLPSpec(5, 3, hidden=(16,)), settings)
    model.save(tmp_path / "m.safetensors")
    inputs = torch.cat((rows.read()[:20], 30 * rows.read()[:5]))
    expected = model.predict(inputs)
    again = TrainedModel.load(tmp_path / "m.safetensors").predict(inputs)
    assert torch.equal(again.uncertainty, expected.uncertainty)
    model.export_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    assert names == ["probabilities", "uncertainty"]
    found = session.run(None, {session.get_inputs()[0].name: inputs.float().numpy()})
    for name, value in zip(names, found, strict=True):
        torch.testing.assert_close(torch.from_numpy(value), getattr(expected, name), rtol=0, atol=1e-5)


def test_a_module_of_the_users_own_gets_what_it_lacks():
    network = SequentialEncoder(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    module = DAEDL().check_module(network)
    assert isinstance(module, TwoStage)
    assert module.second_stage.means.shape == (3, 8)
    assert "network.0.parametrizations.weight.original" in module.state_dict()
    assert DAEDL().check_module(module) is module
    with pytest.raises(ev.InputError, match="with covariance='class', and the method has 'shared'"):
        DAEDL(covariance="shared").check_module(module)
    with pytest.raises(ev.InputError, match=r"needs an nn.Linear as the head .* got a ReLU"):
        DAEDL().check_module(SequentialEncoder(nn.Linear(5, 3), nn.ReLU()))
    with pytest.raises(ev.InputError, match="without them"):
        DAEDL().check_module(nn.Sequential(nn.Linear(5, 3)))


def test_bad_settings_are_refused():
    with pytest.raises(ev.InputError, match="covariance must be one of class, shared, got 'full'"):
        DAEDL(covariance="full")
    with pytest.raises(ev.InputError, match="divergence_weight"):
        DAEDL(divergence_weight=-1.0)
    with pytest.raises(ev.InputError, match="spectral_norm"):
        DAEDL(spectral_norm=1)
    with pytest.raises(ev.InputError, match="ridge"):
        DAEDL(ridge=math.nan)


def test_many_classes_and_features_need_one_covariance():
    spec = LeNetSpec(num_classes=300, hidden=500)
    with pytest.raises(ev.InputError, match=r"300 x 500 x 500 numbers.*set covariance to 'shared'"):
        DAEDL().build(spec)
    module = DAEDL(covariance="shared").build(spec)
    assert module.second_stage.whitening.shape == (1, 500, 500)


def test_normalised_layers_can_not_go_on_from_pretrained_weights():
    method = DAEDL()
    module = method.build(MLPSpec(5, 3))
    with pytest.raises(ev.InputError, match="set spectral_norm to false, or do not fine-tune"):
        method.encoders(module)
    plain = DAEDL(spectral_norm=False)
    module = plain.build(MLPSpec(5, 3))
    assert plain.encoders(module) == [module.network]


def test_the_density_has_no_part_in_the_loss():
    torch.manual_seed(0)
    method = DAEDL()
    module = method.build(MLPSpec(5, 3)).eval()
    batch = Batch(torch.randn(6, 5), torch.arange(6) % 3)
    loss, logits = method.objective(module, batch, 0.0, 6)
    torch.testing.assert_close(loss, method._losses(logits, batch.labels).mean())
    assert torch.equal(logits, module(batch.inputs))


def test_small_alphas_that_tell_classes_apart_are_an_answer():
    prediction = DAEDL().interpret(torch.tensor([[2.0] + [-3.0] * 9, [0.0] * 10, [3.0] + [0.0] * 9]))
    assert prediction.is_vacuous.tolist() == [False, True, False]
    assert float(prediction.uncertainty[0]) == pytest.approx(1, abs=1e-6)
    assert float(prediction.uncertainty[2]) == pytest.approx(10 / (9 + math.exp(3)))
