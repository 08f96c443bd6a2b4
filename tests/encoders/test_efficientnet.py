import pytest
import torch
from torch import nn

from nescio.encoders import Ability, EfficientNetLite0Spec, make_encoder
from nescio.encoders.efficientnet import _by_our_names, _SamePadConv2d
from nescio.errors import DataError, FetchError, InputError
from nescio.methods import make_method


def test_it_has_as_many_weights_as_published():
    network = EfficientNetLite0Spec(num_classes=1000).build()
    assert sum(parameter.numel() for parameter in network.parameters()) == 4_652_008


@pytest.mark.parametrize(("side", "kernel", "stride", "places"), [(8, 3, 2, 4), (7, 5, 2, 4), (9, 3, 1, 9)])
def test_padding_keeps_every_place(side, kernel, stride, places):
    layer = _SamePadConv2d(1, 1, kernel, stride, bias=False)
    assert layer(torch.zeros(1, 1, side, side)).shape[2:] == (places, places)


@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [(8, 8), (7, 8), (9, 9)])
def test_padding_is_as_if_zeros_were_put_around(size, stride, kernel):
    torch.manual_seed(0)
    layer = _SamePadConv2d(4, 4, kernel, stride, groups=4, bias=False)
    images = torch.randn(2, 4, *size)
    margins = []
    for side in reversed(size):  # torch's pad counts the last axis first
        missing = max((-(-side // stride) - 1) * stride + kernel - side, 0)
        margins += [missing // 2, missing - missing // 2]
    padded = nn.functional.pad(images, margins)
    expected = nn.functional.conv2d(padded, layer.weight, stride=stride, groups=4)
    assert torch.allclose(layer(images), expected, atol=1e-6)


def test_padding_is_wider_at_the_right():
    layer = _SamePadConv2d(1, 1, 3, 2, bias=False)
    nn.init.zeros_(layer.weight)
    with torch.no_grad():
        layer.weight[0, 0, 0, 0] = 1.0  # the upper left of each place
    pixels = torch.arange(16.0).reshape(1, 1, 4, 4)
    assert layer(pixels).flatten().tolist() == [0.0, 2.0, 8.0, 10.0]


def test_what_it_says_of_itself():
    spec = make_encoder("efficientnet-lite0", None, 7)
    assert spec == EfficientNetLite0Spec(224, 224, 7)
    assert spec.input_shape == EfficientNetLite0Spec.default_shape == (3, 224, 224)
    assert spec.normalization == ((127.0, 127.0, 127.0), (128.0, 128.0, 128.0))
    assert spec.abilities == set(Ability) - {Ability.LAYERS}


@pytest.mark.parametrize("size", [(32, 32), (33, 47), (96, 64)])
def test_any_size_from_32_on(size):
    spec = EfficientNetLite0Spec(*size, num_classes=3)
    network = spec.build().eval()
    images = torch.rand(2, 3, *size)
    assert network.features(images).shape == (2, spec.num_features) == (2, 1280)


def test_a_new_network_passes_on_what_it_sees():
    torch.manual_seed(0)
    features = EfficientNetLite0Spec(64, 64, 3).build().eval().features(torch.randn(8, 3, 64, 64))
    assert 0.01 < float(features.detach().std()) < 10


def test_a_batch_of_one_small_picture_can_be_trained():
    network = EfficientNetLite0Spec(32, 32, 3).build().train()
    nn.functional.cross_entropy(network(torch.rand(1, 3, 32, 32)), torch.tensor([1])).backward()
    assert float(network.head.weight.grad.abs().sum()) > 0


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: EfficientNetLite0Spec(31, 64), "images of 31 x 64 are too small for efficientnet-lite0; at"),
        (lambda: EfficientNetLite0Spec(dropout=-1), "dropout must be"),
        (
            lambda: EfficientNetLite0Spec.for_inputs((1, 64, 64), 3),
            r"takes images in 3 channels \(RGB\), got 1",
        ),
        (lambda: make_method("mnfg").build(EfficientNetLite0Spec()), "layers that can be replaced"),
    ],
)
def test_what_does_not_fit(make, reason):
    with pytest.raises(InputError, match=reason):
        make()


def test_other_weights_are_refused():
    with pytest.raises(DataError, match=r"the weights must hold 0.weight as \(32, 3, 3, 3\), got \(2,\)"):
        _by_our_names({"_conv_stem.weight": torch.zeros(2)})
    with pytest.raises(DataError, match=r"the weights hold no 0.weight"):
        _by_our_names({"_fc.weight": torch.zeros(2)})


@pytest.mark.network
def test_the_published_weights(registry):
    """The first features of a picture that fades from left to right and from top to bottom.

    The numbers are those of the package that the weights were published for, run once on the same picture.
    """
    spec = EfficientNetLite0Spec(96, 96, num_classes=5)
    try:
        weights = spec.pretrained_weights()
    except FetchError as error:
        registry(str(error))
    again = spec.pretrained_weights()  # from the file that was made of the published one
    assert all(torch.equal(again[name], tensor) for name, tensor in weights.items())
    network = spec.build().eval()
    left_out = network.load_state_dict(weights, strict=False)
    assert (left_out.missing_keys, left_out.unexpected_keys) == (["head.weight", "head.bias"], [])
    ramp = torch.linspace(0, 255, 96)
    red = ramp[None].expand(96, 96)
    green = ramp[:, None].expand(96, 96)
    blue = torch.full((96, 96), 90.0)
    picture = torch.stack([red, green, blue])[None]
    mean, scale = spec.normalization
    with torch.no_grad():
        features = network.features((picture - mean[0]) / scale[0])[0]
    torch.testing.assert_close(
        features[:8], torch.tensor([0.0, 0.0, 2.3982, 0.0, 0.0, 0.0, 0.0, 0.5530]), atol=1e-3, rtol=1e-3
    )
    assert float(features.sum()) == pytest.approx(159.067, rel=1e-4)
