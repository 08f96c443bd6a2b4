import mpmath as mp
import pytest
import torch
from tests.training.small import blobs, trained, weights
from torch import nn

import nescio as ev
from nescio.encoders import Ability, MLPSpec
from nescio.inference.model import TrainedModel
from nescio.methods import EDL, Batch, EDLDistilled
from nescio.methods.evidential.edl_distilled import distillation_loss, masses_of
from nescio.training import Run

SPEC = MLPSpec(5, 3, hidden=(8,))
METHOD = EDLDistilled(num_members=2)
EXTREMES = [
    [0.0, 0.0, 0.0],
    [5.0, -3.0, -1.0],
    [-10.0, -10.0, -10.0],
    [30.0, 29.0, -10.0],
    [3e38, -3e38, 0.0],
]


def exact_loss(logits, masses):
    """KL of the masses from b = e / S and u = K / S, as printed."""
    with mp.workdps(50):
        evidence = [mp.exp(min(max(mp.mpf(z), -10), 30)) for z in logits]
        strength = mp.fsum(evidence) + len(evidence)
        found = [e / strength for e in evidence] + [len(evidence) / strength]
        total = mp.mpf(0)
        for mass, of_logits in zip(masses, found, strict=True):
            if mass > 0:
                total += mp.mpf(mass) * mp.log(mp.mpf(mass) / of_logits)
        return float(total)


@pytest.mark.parametrize("logits", EXTREMES)
@pytest.mark.parametrize("masses", [[0.5, 0.25, 0.0, 0.25], [0.0, 0.0, 0.0, 1.0], [0.9, 0.05, 0.04, 0.01]])
def test_the_loss_is_exact_for_any_logits(logits, masses):
    given = torch.tensor([logits], dtype=torch.float64, requires_grad=True)
    wanted = torch.tensor([masses], dtype=torch.float64)
    found = distillation_loss(given, wanted, METHOD)
    expected = exact_loss(given[0].tolist(), masses)
    assert found.item() == pytest.approx(expected, rel=1e-12, abs=1e-14)
    found.sum().backward()
    assert bool(given.grad.isfinite().all())
    single = distillation_loss(given.detach().float(), wanted.float(), METHOD)
    assert single.item() == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("evidence", ["exp", "softplus"])
def test_gradcheck_and_no_loss_for_the_same_opinion(evidence):
    method = EDLDistilled(evidence=evidence)
    torch.manual_seed(0)
    logits = 3 * torch.randn(5, 4, dtype=torch.float64)
    masses = masses_of(method.interpret(logits))
    torch.testing.assert_close(masses.sum(1), torch.ones(5, dtype=torch.float64))
    assert float(distillation_loss(logits, masses, method).abs().max()) < 1e-14
    wanted = masses.roll(1, 0)
    assert torch.autograd.gradcheck(
        lambda z: distillation_loss(z, wanted, method), logits.clone().requires_grad_()
    )


def distillation(seed=0):
    torch.manual_seed(seed)
    module = METHOD.build(SPEC)
    return module, METHOD.for_training(module)


def test_the_members_learn_from_labels_and_the_network_from_them():
    module, whole = distillation()
    *teachers, learner = METHOD.members(whole.eval())
    assert len(teachers) == 2
    batch = Batch(torch.randn(6, 5), torch.arange(6) % 3)
    loss, _ = METHOD.objective(teachers[0], batch, 3.0, 6)
    expected, _ = EDL().objective(teachers[0], batch, 3.0, 6)
    torch.testing.assert_close(loss, expected)
    loss, logits = METHOD.objective(learner, batch, 3.0, 6)
    fused = ev.fuse([EDL().interpret(teacher(batch.inputs)) for teacher in teachers], "averaging")
    torch.testing.assert_close(loss, distillation_loss(logits, masses_of(fused), METHOD).mean())
    assert torch.equal(logits, module(batch.inputs))
    other = batch._replace(labels=batch.labels.roll(1))
    torch.testing.assert_close(METHOD.objective(learner, other, 3.0, 6)[0], loss)
    torch.autograd.backward(loss)
    assert all(weight.grad is None for weight in whole.teachers.parameters())
    assert all(weight.grad is not None for weight in learner.parameters())
    weighted = batch._replace(weights=torch.tensor([1.0, 0, 0, 0, 0, 0]))
    first, _ = METHOD.objective(learner, batch._replace(inputs=batch.inputs[:1]), 3.0, 6)
    torch.testing.assert_close(METHOD.objective(learner, weighted, 3.0, 6)[0], first)


def test_the_network_comes_to_say_what_the_members_say():
    samples = blobs()
    kept = []

    class Watched(EDLDistilled):
        def for_training(self, module):
            whole = super().for_training(module)
            kept.append(whole)
            return whole

    method = Watched(num_members=2)
    module, history = trained(method, samples, SPEC, epochs=25)
    assert [row["member"] for row in history] == [1] * 25 + [2] * 25 + [3] * 25
    assert history[-1]["loss"] < 0.1 * history[50]["loss"]
    inputs = samples.read()
    prepared = (inputs - inputs.mean(0)) / inputs.std(0)
    with torch.no_grad():
        fused = kept[0].teachers.eval().opinion(prepared)
        found = method.predict(module.eval(), prepared, torch.Generator())
    assert float((masses_of(found) - masses_of(fused)).abs().mean()) < 0.03


def test_the_file_holds_one_network_and_nothing_of_the_members(tmp_path):
    rows = blobs()
    table = ev.data.Table(rows.read(), rows.labels, ("a", "b", "c"), "blobs")
    settings = ev.TrainingSettings(epochs=2, batch_size=32, learning_rate=1e-2)
    model = TrainedModel.train(table, METHOD, SPEC, settings)
    model.save(tmp_path / "m.safetensors")
    single = TrainedModel.train(table, EDL(), SPEC, settings)
    assert len(model.module.state_dict()) == len(single.module.state_dict())
    again = TrainedModel.load(tmp_path / "m.safetensors")
    assert torch.equal(again.predict(rows.read()).evidence, model.predict(rows.read()).evidence)
    assert (METHOD.passes, METHOD.trainings) == (1, 3)


@pytest.mark.parametrize("stops_at", [3, 5, 7])
def test_a_training_that_was_stopped_goes_on_to_the_same_weights(tmp_path, stops_at):
    """While the first and the second member are trained, and the network that learns from them."""

    class StoppedError(Exception):
        pass

    whole, _ = trained(METHOD, spec=SPEC, epochs=3)
    reports = []

    def report(metrics):
        reports.append(metrics)
        if len(reports) == stops_at:
            raise StoppedError

    settings = {"settings": {"epochs": 3}}
    with pytest.raises(StoppedError):
        trained(METHOD, spec=SPEC, epochs=3, run=Run(tmp_path, settings), report=report)
    again, history = trained(METHOD, spec=SPEC, epochs=3, run=Run(tmp_path, settings), seed_of_module=5)
    assert len(history) == 9
    assert torch.equal(weights(again), weights(whole))


def test_members_of_a_pretrained_encoder_begin_where_it_does():
    class PretrainedSpec(MLPSpec):
        kind = "pretrained-mlp"
        about = "for a test"
        abilities = MLPSpec.abilities | {Ability.PRETRAINED}

    torch.manual_seed(0)
    module = METHOD.build(PretrainedSpec(5, 3, hidden=(8,)))
    assert METHOD.encoders(module) == [module.network]
    nn.init.constant_(module.network[0].weight, 0.5)
    whole = METHOD.for_training(module)
    for teacher in whole.teachers.networks:
        assert torch.equal(teacher[0].weight, module.network[0].weight)
        assert not torch.equal(teacher.head.weight, module.network.head.weight)


def test_what_can_not_be_distilled_is_refused():
    with pytest.raises(ev.InputError, match="evidence must be exp or softplus for edl-distilled, got 'relu'"):
        EDLDistilled(evidence="relu")
    with pytest.raises(ev.InputError, match="the method edl-distilled builds its members itself"):
        METHOD.check_module(nn.Linear(5, 3))
    module = METHOD.build(SPEC)
    assert METHOD.check_module(module) is module
