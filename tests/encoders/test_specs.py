import json

import pytest
import torch
from torch import nn

from nescio.encoders import Layers, LeNetSpec, MLPSpec, spec_from_dict, spec_to_dict
from nescio.errors import InputError


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


def test_the_notebooks_initialisation():
    torch.manual_seed(0)
    network = LeNetSpec(padding="same", initialisation="notebook").build()
    conv1, _, _, conv2, _, _, _, dense, _, _, head = network
    for layer, deviation in ((conv1, 0.632), (conv2, 0.632), (dense, 0.0286), (head, 0.0632)):
        # A normal distribution cut at two deviations has 0.88 of its deviation.
        assert float(layer.weight.detach().std()) == pytest.approx(0.88 * deviation, rel=0.1)
        assert float(layer.weight.detach().abs().max()) <= 2 * deviation * 1.001
    assert float(head.bias.detach().abs().max()) <= 2 * 0.4473
    with pytest.raises(InputError, match="initialisation must be torch, glorot, notebook"):
        LeNetSpec(initialisation="ones")


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


@pytest.mark.parametrize(("padding", "least"), [("valid", 16), ("same", 4)])
def test_the_least_images_leave_one_feature(padding, least):
    spec = LeNetSpec(height=least, width=least, padding=padding)
    assert spec.feature_size == (1, 1)
    assert spec.build()(torch.zeros(2, 1, least, least)).shape == (2, 10)


@pytest.mark.parametrize("spec", [LeNetSpec(num_classes=4, padding="same"), MLPSpec(3, 2, hidden=(8,))])
def test_there_and_back_through_json(spec):
    assert spec_from_dict(json.loads(json.dumps(spec_to_dict(spec)))) == spec


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda: LeNetSpec(height=15),
            "15 x 28 are too small .* valid; at least 16 x 16",
        ),
        (lambda: LeNetSpec(width=3, padding="same"), "28 x 3 are too small .* same; at least 4 x 4"),
        (lambda: LeNetSpec(filters=(20,)), "filters must be two whole numbers"),
        (lambda: LeNetSpec(filters=(20, 0)), "filters must be a whole number from 1 on, got 0"),
        (lambda: LeNetSpec(filters=5), "filters must be a list of whole numbers, got 5"),
        (lambda: LeNetSpec(hidden=0), "hidden must be a whole number from 1 on, got 0"),
        (lambda: LeNetSpec(hidden=2.5), "hidden must be a whole number from 1 on, got 2.5"),
        (lambda: LeNetSpec(in_channels=0), "in_channels must be a whole number from 1 on"),
        (lambda: LeNetSpec(height=-28), "height must be a whole number from 1 on"),
        (lambda: LeNetSpec(num_classes=True), "num_classes must be a whole number from 1 on, got True"),
        (lambda: MLPSpec(3, 2, hidden=(8, -1)), "hidden must be a whole number from 1 on, got -1"),
        (lambda: MLPSpec(3, 2, hidden="64"), "hidden must be a list of whole numbers, got '64'"),
        (lambda: MLPSpec(0, 2), "in_features must be a whole number from 1 on"),
        (lambda: MLPSpec(3, 2, dropout="0.1"), "dropout must be .* got '0.1'"),
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
