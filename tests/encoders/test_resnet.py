import pytest
import torch
from torch import nn

from nescio.encoders import Ability, ResNet18Spec, ResNet50Spec
from nescio.errors import InputError
from nescio.methods import make_method


def weights_of(spec):
    return sum(parameter.numel() for parameter in spec.build().parameters())


def test_they_have_as_many_weights_as_published():
    assert weights_of(ResNet18Spec(num_classes=1000)) == 11_689_512
    assert weights_of(ResNet50Spec(num_classes=1000)) == 25_557_032


@pytest.mark.parametrize(("side", "stem", "after"), [(32, "small", 32), (63, "small", 63), (64, "large", 16)])
def test_the_stem_goes_by_the_size(side, stem, after):
    spec = ResNet18Spec.for_inputs((3, side, side + 5), 4)
    assert spec.stem == stem
    encoder = spec.build().encoder
    first_block = next(index for index, layer in enumerate(encoder) if hasattr(layer, "shortcut"))
    assert encoder[:first_block](torch.zeros(1, 3, side, side)).shape == (1, 64, after, after)


def test_a_stem_may_be_chosen():
    assert ResNet18Spec.for_inputs((3, 32, 32), 4, stem="large").stem == "large"


def test_a_block_starts_as_its_shortcut():
    block = ResNet18Spec.for_inputs((3, 32, 32), 4).build().encoder[3]
    inputs = torch.rand(2, 64, 8, 8)
    assert torch.equal(block.eval()(inputs), inputs)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 16, 30), (4, 65, 80)])
def test_any_size_and_any_channels(shape):
    spec = ResNet50Spec.for_inputs(shape, 3)
    network = spec.build().eval()
    images = torch.rand(2, *shape)
    assert network.features(images).shape == (2, spec.num_features) == (2, 2048)
    assert network(images).shape == (2, 3)


def test_a_batch_of_one_small_picture_can_be_trained():
    network = ResNet18Spec.for_inputs((1, 8, 8), 3).build().train()
    loss = nn.functional.cross_entropy(network(torch.rand(1, 1, 8, 8)), torch.tensor([1]))
    loss.backward()
    assert float(network.head.weight.grad.abs().sum()) > 0


def test_methods_with_layers_of_their_own_are_refused():
    spec = ResNet18Spec.for_inputs((1, 8, 8), 3)
    assert spec.abilities == {Ability.DROPOUT, Ability.FEATURES}
    with pytest.raises(
        InputError, match="ffgu needs an encoder with layers that can be replaced, and resnet18"
    ):
        make_method("ffgu").build(spec)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"height": 7}, "images of 7 x 224 are too small for resnet18; at least 8 x 8"),
        ({"stem": "tiny"}, "stem must be small or large, got 'tiny'"),
        ({"in_channels": 0}, "in_channels must be a whole number from 1 on"),
        ({"num_classes": 2.5}, "num_classes must be a whole number from 1 on"),
        ({"dropout": 1.0}, "dropout must be"),
    ],
)
def test_what_does_not_fit(settings, reason):
    with pytest.raises(InputError, match=reason):
        ResNet18Spec(**settings)
