import pytest
import torch
from torch.nn.functional import cross_entropy

import nescio as ev
from nescio.encoders import MLPSpec
from nescio.methods import Batch, Softmax


@pytest.fixture
def batch():
    torch.manual_seed(0)
    return Batch(torch.randn(8, 5), torch.arange(8) % 3)


@pytest.fixture
def module():
    torch.manual_seed(1)
    return MLPSpec(5, 3).build()


def test_softmax_minimises_cross_entropy_and_the_weights(module, batch):
    loss, logits = Softmax(weight_decay=0.1).objective(module, batch, epoch=4.0, num_train=100)
    squares = sum(float(layer.weight.detach().square().sum()) for layer in module if hasattr(layer, "weight"))
    assert loss.item() == pytest.approx(cross_entropy(logits, batch.labels).item() + 0.05 * squares, rel=1e-5)


def test_weight_decay_needs_dense_layers(batch):
    module = torch.nn.Sequential(torch.nn.Unflatten(1, (1, 5)), torch.nn.Conv1d(1, 3, 5), torch.nn.Flatten())
    with pytest.raises(ev.InputError, match="weight_decay is for dense layers, and the network has none"):
        Softmax(weight_decay=0.1).objective(module, batch, 0.0, 8)
