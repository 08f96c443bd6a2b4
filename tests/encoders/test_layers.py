import pytest
import torch
from torch import nn

from nescio.encoders._layers import BatchNorm


def test_it_is_torchs_batch_normalisation():
    ours, theirs = BatchNorm(3), nn.BatchNorm2d(3)
    inputs = torch.randn(4, 3, 5, 5)
    assert torch.equal(ours(inputs), theirs(inputs))
    assert torch.equal(ours.running_var, theirs.running_var)
    assert torch.equal(ours.eval()(inputs), theirs.eval()(inputs))


def test_a_single_value_is_normalised_by_what_was_seen_before():
    layer = BatchNorm(2)
    layer.running_mean.fill_(1.0)
    layer.running_var.fill_(4.0)
    inputs = torch.tensor([3.0, -5.0]).reshape(1, 2, 1, 1)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        nn.BatchNorm2d(2)(inputs)
    torch.testing.assert_close(layer(inputs).flatten(), torch.tensor([1.0, -3.0]))
    assert torch.equal(layer.running_mean, torch.ones(2))
