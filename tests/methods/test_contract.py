"""What every method must do. A new one joins by being listed in METHODS."""

import dataclasses
import json

import pytest
import torch

import nescio as ev
from nescio.data import Dataset
from nescio.encoders import LeNetSpec, MLPSpec
from nescio.inference.model import TrainedModel
from nescio.methods import METHODS, Batch, make_method, method_from_dict, method_to_dict
from nescio.opinions.categorical import Prediction
from nescio.training import TrainingSettings

SPECS = {
    "lenet": LeNetSpec(1, 16, 16, 10, filters=(4, 6), hidden=16),
    "mlp": MLPSpec(5, 2, hidden=(8,)),
}


@pytest.fixture(params=METHODS)
def method(request):
    """With few passes, and with a prior that is eased in: these data are too few to outweigh it."""
    fields = {field.name for field in dataclasses.fields(METHODS.get(request.param))}
    wanted = {"samples": 3, "num_members": 2, "warm_up_epochs": 100}
    return make_method(request.param, **{name: value for name, value in wanted.items() if name in fields})


@pytest.fixture(params=SPECS)
def spec(request, method):
    return method.default_encoder(SPECS[request.param])


def built(method, spec):
    torch.manual_seed(0)
    return method.build(spec)


def batch_for(spec, count=6):
    generator = torch.Generator().manual_seed(1)
    inputs = torch.rand(count, *spec.input_shape, generator=generator)
    return Batch(inputs, torch.arange(count) % spec.num_classes, None, torch.ones(spec.input_shape[0]))


@pytest.fixture(scope="module")
def stripes():
    """Two kinds of images that any network tells apart."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(96) % 2
    images = torch.randint(100, (96, 1, 16, 16), generator=generator, dtype=torch.uint8)
    images[labels == 0, :, ::4] += 150
    images[labels == 1, :, :, ::4] += 150
    return Dataset(images, labels, ("across", "down"), "stripes")


@pytest.fixture
def model(method, stripes):
    spec = dataclasses.replace(SPECS["lenet"], num_classes=2)
    settings = TrainingSettings(epochs=12, batch_size=16, learning_rate=5e-3)
    return TrainedModel.train(stripes, method, method.default_encoder(spec), settings, held_out=stripes)


def test_it_says_what_it_is(method):
    assert method.name in METHODS
    assert method.about
    assert method.paper
    assert method.passes >= 1
    assert method_from_dict(json.loads(json.dumps(method_to_dict(method)))) == method
    with pytest.raises(dataclasses.FrozenInstanceError):
        method.name_of_nothing = 1


@pytest.mark.parametrize("count", [1, 4])
def test_a_prediction_is_a_distribution(method, spec, count):
    module = built(method, spec).eval()
    prediction = method.predict(module, batch_for(spec, count).inputs, torch.Generator().manual_seed(0))
    assert isinstance(prediction, Prediction)
    assert prediction.probabilities.shape == (count, spec.num_classes)
    torch.testing.assert_close(prediction.probabilities.sum(1), torch.ones(count))
    assert ((prediction.uncertainty >= 0) & (prediction.uncertainty <= 1)).all()
    assert not any(part.training for part in module.modules())


def test_the_same_generator_gives_the_same_prediction(method, spec):
    module, inputs = built(method, spec).eval(), batch_for(spec).inputs
    state = torch.random.get_rng_state()
    one, two, other = (
        method.predict(module, inputs, torch.Generator().manual_seed(seed)).probabilities
        for seed in (0, 0, 1)
    )
    assert torch.equal(one, two)
    assert torch.equal(one, other) is not method.is_stochastic
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("count", [1, 6])
def test_a_finite_loss_with_a_gradient_for_every_weight(method, spec, count):
    for member in method.members(built(method, spec).train()):
        loss, logits = method.objective(member, batch_for(spec, count), 0.5, 100)
        assert loss.ndim == 0
        assert loss.isfinite()
        assert logits.shape == (count, spec.num_classes)
        loss.backward()
        for name, weight in member.named_parameters():
            assert weight.grad is not None, name
            assert weight.grad.isfinite().all(), name


def test_held_out_loss_needs_no_gradient_and_draws_nothing(method, spec):
    module = built(method, spec).eval()
    with torch.no_grad():
        losses = [method.objective(method.members(module)[0], batch_for(spec), 9.0, 100)[0] for _ in "12"]
    assert losses[0] == losses[1]


def test_weights_count_like_repetition(method, spec):
    module, batch = built(method, spec).eval(), batch_for(spec)
    weight = torch.arange(6) % 3
    repeated = batch._replace(
        inputs=batch.inputs.repeat_interleave(weight, 0), labels=batch.labels.repeat_interleave(weight)
    )
    member = method.members(module)[0]
    weighted, _ = method.objective(member, batch._replace(weights=weight.float()), 4.0, 100)
    torch.testing.assert_close(weighted, method.objective(member, repeated, 4.0, 100)[0])


def test_it_works_under_bfloat16(method, spec):
    module, batch = built(method, spec), batch_for(spec)
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = method.objective(method.members(module.train())[0], batch, 0.5, 100)
        prediction = method.predict(module.eval(), batch.inputs, torch.Generator().manual_seed(0))
    assert loss.dtype == torch.float32
    loss.backward()
    assert loss.isfinite()
    torch.testing.assert_close(prediction.probabilities.sum(1), torch.ones(6))


def test_it_works_in_float64(method, spec):
    module, batch = built(method, spec).double(), batch_for(spec)
    wide = batch._replace(inputs=batch.inputs.double(), input_range=batch.input_range.double())
    loss, logits = method.objective(method.members(module.train())[0], wide, 0.5, 100)
    assert (loss.dtype, logits.dtype) == (torch.float64, torch.float64)
    prediction = method.predict(module.eval(), wide.inputs, torch.Generator().manual_seed(0))
    assert prediction.probabilities.dtype == torch.float64


def test_it_learns_and_lasts(method, model, stripes, tmp_path):
    """Trained on a tiny set its loss on data falls; saved and loaded it predicts the same."""
    of_member = [row for row in model.training["history"] if row.get("member", 1) == 1]
    assert of_member[-1]["held_out_loss"] < of_member[0]["held_out_loss"]
    prediction = model.predict(stripes.images)
    assert (prediction.labels == stripes.labels).float().mean() > 0.9
    model.save(tmp_path / "model.safetensors")
    again = TrainedModel.load(tmp_path / "model.safetensors")
    assert again.method == method
    assert torch.equal(again.predict(stripes.images).probabilities, prediction.probabilities)


@pytest.mark.filterwarnings("ignore")  # of the exporter, about itself
def test_it_exports_or_says_why_not(method, stripes, tmp_path):
    spec = method.default_encoder(dataclasses.replace(SPECS["lenet"], num_classes=2))
    model = TrainedModel.train(stripes, method, spec, TrainingSettings(epochs=1, batch_size=32))
    if method.is_stochastic:
        with pytest.raises(ev.InputError, match=f"{method.name} draws at random in every prediction"):
            model.export_program(tmp_path / "model.pt2")
        assert not list(tmp_path.iterdir())
        return
    model.export_program(tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2").module()
    with torch.no_grad():
        probabilities = program(stripes.images[:5].float())[0]
    torch.testing.assert_close(probabilities, model.predict(stripes.images[:5]).probabilities)
