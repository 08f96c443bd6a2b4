import pytest
import torch
from torch import nn

import evidentia as ev
from evidentia.methods import EDL, L2
from evidentia.nets import MLPSpec, Standardize, from_softmax
from evidentia.training import Samples, TrainingSettings, fit


@pytest.fixture(scope="module")
def blobs():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(400) % 4
    centers = 3 * torch.randn(4, 6, generator=generator)
    return Samples(centers[labels] + torch.randn(400, 6, generator=generator), labels)


@pytest.fixture(scope="module")
def softmax(blobs):
    torch.manual_seed(0)
    module = MLPSpec(6, 4).build()
    standardize = Standardize((0.0,) * 6, (1.0,) * 6)
    fit(L2(), module, standardize, blobs, TrainingSettings(epochs=15, batch_size=32, learning_rate=1e-2))
    return module


def test_the_answers_stay_and_the_evidence_is_sound(softmax, blobs):
    converted = from_softmax(softmax, blobs.inputs)
    with torch.no_grad():
        before, after = softmax(blobs.inputs), converted(blobs.inputs)
    torch.testing.assert_close(after.softmax(1), before.softmax(1), rtol=1e-3, atol=1e-5)
    assert ev.Opinion.from_logits(after).evidence.sum(1).median() == pytest.approx(40, rel=0.01)


def test_the_given_network_is_left_alone(softmax, blobs):
    before = softmax[-1].bias.clone()
    from_softmax(softmax, blobs.inputs)
    assert torch.equal(softmax[-1].bias, before)


def test_a_few_epochs_make_it_evidential(softmax, blobs):
    converted = from_softmax(softmax, blobs.inputs)
    standardize = Standardize((0.0,) * 6, (1.0,) * 6)
    method = EDL(annealing_epochs=2)
    settings = TrainingSettings(epochs=8, batch_size=32, learning_rate=3e-3)
    history = fit(method, converted, standardize, blobs, settings)
    far = 30 * torch.randn(200, 6, generator=torch.Generator().manual_seed(1)) * torch.tensor([1.0, -1] * 3)
    with torch.no_grad():
        known, strange = (ev.Opinion.from_logits(converted(x)) for x in (blobs.inputs, far))
    assert history[-1]["accuracy"] > 0.9
    assert strange.uncertainty.max() > known.uncertainty.median()


def test_a_new_head_for_other_classes(softmax):
    converted = from_softmax(softmax, num_classes=7)
    assert converted(torch.zeros(2, 6)).shape == (2, 7)
    assert torch.equal(converted[0].weight, softmax[0].weight)


def test_what_can_not_be_converted(softmax):
    with pytest.raises(ev.InputError, match=r"last nn.Linear"):
        from_softmax(nn.Sequential(nn.ReLU()))
    with pytest.raises(ev.InputError, match=r"last nn.Linear"):
        from_softmax(nn.Linear(3, 2))
    with pytest.raises(ev.InputError, match="must have a bias"):
        from_softmax(nn.Sequential(nn.Linear(6, 4, bias=False)), torch.zeros(2, 6))
    with pytest.raises(ev.InputError, match="must give the logits"):
        from_softmax(nn.Sequential(nn.Linear(6, 4), nn.Unflatten(1, (2, 2))), torch.zeros(2, 6))
