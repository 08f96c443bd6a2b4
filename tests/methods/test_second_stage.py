import pytest
import torch
from torch import nn

from nescio.encoders import MLPSpec
from nescio.errors import InputError
from nescio.methods import TwoStage


def test_it_is_the_network_with_buffers_beside_it():
    network, held = MLPSpec(4, 3, hidden=(5,)).build(), nn.Module()
    held.register_buffer("scale", torch.ones(3))
    module, inputs = TwoStage(network, held), torch.randn(6, 4)
    assert torch.equal(module(inputs), network(inputs))
    assert torch.equal(module.features(inputs), network.features(inputs))
    assert module.head is network.head
    assert set(module.state_dict()) == {f"network.{name}" for name in network.state_dict()} | {
        "second_stage.scale"
    }


def test_a_network_without_features_is_refused():
    with pytest.raises(InputError, match="got a Sequential without them"):
        TwoStage(nn.Sequential(nn.Linear(4, 3)), nn.Module())
