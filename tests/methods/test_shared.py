import pytest
import torch
from torch import nn

from nescio.encoders import MLPSpec
from nescio.errors import InputError
from nescio.methods import Batch
from nescio.methods._shared import linear_head, mean_of_softmax, softmax_loss, weight_penalty


def test_the_loss_is_the_mean_of_minus_log_probability():
    torch.manual_seed(0)
    module, batch = MLPSpec(4, 3).build(), Batch(torch.randn(5, 4), torch.arange(5) % 3)
    loss, logits = softmax_loss(module, batch)
    naive = [-logits[row].softmax(0)[label].log() for row, label in enumerate(batch.labels)]
    torch.testing.assert_close(loss, torch.stack(naive).mean())
    weights = torch.tensor([1.0, 0, 2, 0, 1])
    weighted, _ = softmax_loss(module, batch._replace(weights=weights))
    torch.testing.assert_close(weighted, (torch.stack(naive) * weights).sum() / 4)


def test_the_mean_over_passes():
    passes = torch.randn(3, 4, 2, dtype=torch.float64)
    found = mean_of_softmax(iter(passes)).probabilities
    torch.testing.assert_close(found, passes.softmax(-1).mean(0))
    assert mean_of_softmax([passes[0].to(torch.bfloat16)]).probabilities.dtype == torch.float32


def test_the_penalty_is_half_the_squares_of_dense_weights():
    module = nn.Sequential(nn.Conv1d(1, 1, 1), nn.Linear(2, 1), nn.Linear(1, 1))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(3.0)
    assert weight_penalty(module, 0.1).item() == pytest.approx(0.1 / 2 * 3 * 9)
    assert weight_penalty(module, 0.0) == 0.0
    with pytest.raises(InputError, match="weight_decay is for dense layers, and the network has none"):
        weight_penalty(nn.Conv1d(1, 1, 1), 0.1)


def test_the_head_of_a_module_of_the_users_own():
    network = MLPSpec(4, 3, hidden=(8,)).build()
    assert linear_head(network, "some") is network.head
    network.append(nn.ReLU())
    with pytest.raises(InputError, match=r"the method some needs an nn.Linear as the head .* got a ReLU"):
        linear_head(network, "some")
