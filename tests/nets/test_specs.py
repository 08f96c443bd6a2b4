import json

import pytest
import torch
from torch import nn

from evidentia.errors import InputError
from evidentia.nets import Layers, LeNetSpec, MLPSpec, spec_from_dict, spec_to_dict


def parameters(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(("padding", "flat"), [("valid", 800), ("same", 2450)])
def test_lenet_is_the_papers(padding, flat):
    network = LeNetSpec(padding=padding).build()
    expected = (20 * 25 + 20) + (50 * 20 * 25 + 50) + (flat * 500 + 500) + (500 * 10 + 10)
    assert parameters(network) == expected
    assert network(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def test_the_large_lenet():
    spec = LeNetSpec.cifar5()
    first, second = (layer for layer in spec.build() if isinstance(layer, nn.Conv2d))
    assert (first.out_channels, second.out_channels, spec.hidden) == (192, 192, 1000)
    assert spec.build()(torch.zeros(1, 3, 32, 32)).shape == (1, 5)
    assert spec.input_shape == (3, 32, 32)


def test_pooling_before_the_rectifier_is_the_same():
    torch.manual_seed(0)
    network = LeNetSpec(dropout=0.0).build().eval()
    x = torch.randn(3, 1, 28, 28)
    conv1, pool, relu, conv2, _, _, flatten, dense, _, _, head = network
    usual = pool(relu(conv1(x)))
    usual = flatten(pool(torch.relu(conv2(usual))))
    torch.testing.assert_close(network(x), head(torch.relu(dense(usual))))


def test_mlp():
    spec = MLPSpec(7, 3, hidden=(5, 4), dropout=0.1)
    assert parameters(spec.build()) == 7 * 5 + 5 + 5 * 4 + 4 + 4 * 3 + 3
    assert spec.build()(torch.zeros(2, 7)).shape == (2, 3)
    assert spec.input_shape == (7,)


def test_a_spec_can_be_built_from_other_layers():
    made = []

    def linear(*sizes):
        made.append(sizes)
        return nn.Linear(*sizes)

    MLPSpec(4, 2, hidden=(3,)).build(Layers(linear=linear))
    assert made == [(4, 3), (3, 2)]


@pytest.mark.parametrize("spec", [LeNetSpec(num_classes=4, padding="same"), MLPSpec(3, 2, hidden=(8,))])
def test_there_and_back_through_json(spec):
    assert spec_from_dict(json.loads(json.dumps(spec_to_dict(spec)))) == spec


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: LeNetSpec(height=12, width=12), "12 x 12 are too small for LeNet"),
        (lambda: LeNetSpec(padding="full"), "padding must be valid or same"),
        (lambda: LeNetSpec(dropout=1.0), "dropout must be"),
        (lambda: MLPSpec(3, 2, dropout=-0.1), "dropout must be"),
        (lambda: spec_from_dict({"kind": "vgg"}), "network kind must be one of lenet, mlp, got 'vgg'"),
        (lambda: spec_from_dict({"kind": "mlp", "depth": 3}), "network settings do not fit mlp"),
    ],
)
def test_what_does_not_fit(make, reason):
    with pytest.raises(InputError, match=reason):
        make()
