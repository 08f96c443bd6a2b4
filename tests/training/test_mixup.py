"""Mixup: samples, labels and weights are mixed alike."""

import pytest
import torch
from tests.training.small import LENET, blobs, squares, trained
from torch import nn

import nescio as ev
from nescio.methods import METHODS, Batch, Method
from nescio.training import Samples, TrainingSettings, fit
from nescio.training._mixup import draw_share, mixed


def test_each_is_mixed_with_the_one_before_it():
    batch = Batch(torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([0, 2, 2]), torch.tensor([1.0, 3.0, 5.0]))
    found = mixed(batch, 0.75, 3)
    assert found.inputs.flatten().tolist() == [0.5, 0.75, 1.75]
    assert found.labels.tolist() == [[0.75, 0, 0.25], [0.25, 0, 0.75], [0, 0, 1]]
    assert found.weights.tolist() == [2, 2.5, 4.5]


def test_shares_are_beta_distributed_and_come_from_the_generator():
    generator = torch.Generator().manual_seed(0)
    shares = torch.tensor([draw_share(0.5, generator) for _ in range(3000)])
    assert float(shares.mean()) == pytest.approx(0.5, abs=0.02)
    assert float(shares.var()) == pytest.approx(1 / 8, abs=0.01)  # 1 / (4 (2 alpha + 1))
    assert draw_share(0.5, torch.Generator().manual_seed(4)) == draw_share(
        0.5, torch.Generator().manual_seed(4)
    )


@pytest.mark.parametrize("name", list(METHODS))
def test_a_method_takes_soft_labels_or_refuses_mixup_in_words(name):
    method = METHODS.get(name)()
    spec = method.default_encoder(LENET)
    if method.takes_soft_labels:
        _, history = trained(method, squares(32), spec, epochs=1, mixup=0.5)
        assert history[-1]["loss"] > 0
    else:
        with pytest.raises(ev.InputError, match=f"mixup makes soft labels, and the method {name} takes none"):
            trained(method, squares(32), spec, epochs=1, mixup=0.5)


def test_the_loss_of_a_mixed_batch_is_that_of_its_soft_labels():
    samples = squares(8)
    images = samples.inputs.float() / 255
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(400, 2))
    batch = mixed(Batch(images, samples.labels), 0.3, 2)
    loss, logits = METHODS.get("softmax")().objective(module, batch, 0.0, 8)
    partner = samples.labels.roll(1)
    log_probabilities = logits.log_softmax(1)
    one = -log_probabilities[torch.arange(8), samples.labels]
    other = -log_probabilities[torch.arange(8), partner]
    expected = (0.3 * one + 0.7 * other).mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("options", [{"mixup": 0.2}, {"augment": "light"}, {"shift": 1, "flip": True}])
def test_rows_are_not_augmented(options):
    names = " and ".join(options)
    with pytest.raises(ev.InputError, match=rf"{names} change images \(N, C, H, W\), got \(240, 5\)"):
        trained(samples=blobs(), **options)


def test_a_method_of_ones_own_must_say_that_it_takes_soft_labels():
    class Margin(Method):
        name = "margin"
        about = "the margin between the true class and the others"

        def objective(self, module, batch, epoch, num_train):
            logits = module(batch.inputs)
            return nn.functional.multi_margin_loss(logits, batch.labels), logits

    samples = squares(8)
    module = nn.Sequential(nn.Flatten(), nn.Linear(400, 2))
    settings = TrainingSettings(epochs=1, mixup=0.2)
    with pytest.raises(ev.InputError, match="margin takes none; set mixup to 0 or choose another method"):
        fit(Margin(), module, None, Samples(samples.inputs, samples.labels), settings)
