import pytest
import torch
from torch import nn

from nescio.encoders import Ability, InputKind, Layers, LeNetSpec
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


@pytest.mark.parametrize(("padding", "least"), [("valid", 16), ("same", 4)])
def test_the_least_images_leave_one_feature(padding, least):
    spec = LeNetSpec(height=least, width=least, padding=padding)
    assert spec.feature_size == (1, 1)
    assert spec.build()(torch.zeros(2, 1, least, least)).shape == (2, 10)


def test_glorots_initialisation():
    torch.manual_seed(0)
    network = LeNetSpec(padding="same", initialisation="glorot").build()
    conv1, _, _, conv2, _, _, _, dense, _, _, head = network
    for layer, ends in ((conv1, 525), (conv2, 1750), (dense, 2950), (head, 510)):
        bound = (6 / ends) ** 0.5  # 25 weights lead into and out of each channel of a 5 x 5 filter
        assert 0.97 * bound < float(layer.weight.detach().abs().max()) <= bound
        assert not layer.bias.any()


def test_what_it_says_of_itself():
    assert (LeNetSpec.kind, LeNetSpec.inputs) == ("lenet", InputKind.IMAGES)
    assert LeNetSpec.abilities == set(Ability) - {Ability.PRETRAINED}
    assert LeNetSpec.for_inputs((3, 20, 24), 7, hidden=9) == LeNetSpec(3, 20, 24, 7, hidden=9)


def test_features_and_head():
    torch.manual_seed(0)
    spec = LeNetSpec(1, 16, 18, 3, filters=(2, 3), hidden=6)
    network = spec.build().eval()
    images = torch.randn(4, 1, 16, 18)
    assert network.features(images).shape == (4, spec.num_features) == (4, 6)
    assert torch.equal(network.head(network.features(images)), network(images))
    biases = [name for name in network.state_dict() if name.endswith("bias")]
    assert biases == ["0.bias", "3.bias", "7.bias", "10.bias"]


def test_it_can_be_built_from_other_layers():
    made = []

    def convolution(*sizes, padding):
        made.append((*sizes, padding))
        return nn.Conv2d(*sizes, padding=padding)

    LeNetSpec(1, 16, 16, filters=(2, 3), padding="same").build(Layers(convolution=convolution))
    assert made == [(1, 2, 5, 2), (2, 3, 5, 2)]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"height": 15}, "15 x 28 are too small .* valid; at least 16 x 16"),
        ({"width": 3, "padding": "same"}, "28 x 3 are too small .* same; at least 4 x 4"),
        ({"filters": (20,)}, "filters must be two whole numbers"),
        ({"filters": (20, 0)}, "filters must be a whole number from 1 on, got 0"),
        ({"filters": 5}, "filters must be a list of whole numbers, got 5"),
        ({"hidden": 0}, "hidden must be a whole number from 1 on, got 0"),
        ({"hidden": 2.5}, "hidden must be a whole number from 1 on, got 2.5"),
        ({"in_channels": 0}, "in_channels must be a whole number from 1 on"),
        ({"height": -28}, "height must be a whole number from 1 on"),
        ({"num_classes": True}, "num_classes must be a whole number from 1 on, got True"),
        ({"padding": "full"}, "padding must be valid or same"),
        ({"padding": ["valid"]}, r"padding must be valid or same, got \['valid'\]"),
        ({"initialisation": ["torch"]}, r"initialisation must be torch, .* got \['torch'\]"),
        ({"dropout": 1.0}, "dropout must be"),
    ],
)
def test_what_does_not_fit(settings, reason):
    with pytest.raises(InputError, match=reason):
        LeNetSpec(**settings)
