import torch
from torch import nn

from nescio.encoders import LeNetSpec
from nescio.methods._spectral import normalise_layers


def largest_singular_values(module):
    found = []
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            found.append(float(torch.linalg.matrix_norm(layer.weight.detach().flatten(1), 2)))
    return found


def test_the_greatest_singular_value_of_every_layer_is_one():
    torch.manual_seed(0)
    network = LeNetSpec(1, 16, 16, 3, filters=(4, 6), hidden=16).build()
    normalise_layers(network)
    for _ in range(60):  # steps of power iteration
        network(torch.zeros(1, 1, 16, 16))
    torch.testing.assert_close(
        torch.tensor(largest_singular_values(network)), torch.ones(4), rtol=0, atol=1e-3
    )


def test_in_evaluation_mode_nothing_changes_and_the_state_brings_it_back():
    torch.manual_seed(0)
    networks = []
    for _ in range(2):
        network = LeNetSpec(1, 16, 16, 3, filters=(4, 6), hidden=16).build()
        normalise_layers(network)
        networks.append(network.eval())
    first, second = networks
    inputs = torch.randn(5, 1, 16, 16)
    expected = first(inputs)
    assert torch.equal(first(inputs), expected)
    assert not torch.equal(second(inputs), expected)
    second.load_state_dict(first.state_dict())
    assert torch.equal(second(inputs), expected)


def test_a_layer_is_normalised_once():
    layer = nn.Linear(3, 2)
    normalise_layers(layer)
    names = list(layer.state_dict())
    normalise_layers(layer)
    assert list(layer.state_dict()) == names
