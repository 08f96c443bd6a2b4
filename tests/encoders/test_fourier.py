import pytest
import torch
from torch import nn
from torch.nn import functional

from nescio.encoders import LeNetSpec, _fourier
from nescio.encoders._fourier import Conv2d, conv2d, fourier_conv2d

ENOUGH = _fourier.LEAST_CHANNELS


def images_and_kernels(batch=3, inputs=5, outputs=4, height=9, width=7, kernel=3):
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(batch, inputs, height, width, generator=generator)
    kernels = torch.randn(outputs, inputs, kernel, kernel, generator=generator)
    return images, kernels, torch.randn(outputs, generator=generator)


@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
@pytest.mark.parametrize(("height", "width"), [(9, 7), (8, 8), (5, 6)])
def test_it_is_the_direct_convolution(height, width, kernel, padding):
    images, kernels, bias = images_and_kernels(height=height, width=width, kernel=kernel)
    expected = functional.conv2d(images, kernels, bias, padding=padding)
    outputs = fourier_conv2d(images, kernels, bias, padding)
    torch.testing.assert_close(outputs, expected, rtol=1e-5, atol=2e-5)


def test_gradients_are_those_of_the_direct_convolution():
    found = []
    for convolution in (functional.conv2d, fourier_conv2d):
        images, kernels, bias = images_and_kernels()
        for tensor in (images, kernels, bias):
            tensor.requires_grad_()
        convolution(images, kernels, bias).square().sum().backward()
        found.append((images.grad, kernels.grad, bias.grad))
    for direct, fourier in zip(*found, strict=True):
        torch.testing.assert_close(fourier, direct, rtol=1e-4, atol=1e-3)


def test_outputs_have_channels_last_in_memory():
    images, kernels, _ = images_and_kernels()
    assert fourier_conv2d(images, kernels).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("change", "is_taken"),
    [
        ({}, True),
        ({"inputs": ENOUGH - 1}, False),
        ({"outputs": ENOUGH - 1}, False),
        ({"batch": _fourier.LEAST_BATCH - 1}, False),
        ({"kernel": _fourier.LEAST_KERNEL - 1}, False),
        ({"height": _fourier.LARGEST_SIDE + 1}, False),
    ],
)
def test_it_is_taken_where_it_is_faster(monkeypatch, change, is_taken):
    taken = []

    def watched(*arguments):
        taken.append(arguments)
        return fourier_conv2d(*arguments)

    monkeypatch.setattr(_fourier, "fourier_conv2d", watched)
    usual = {"batch": _fourier.LEAST_BATCH, "inputs": ENOUGH, "outputs": ENOUGH, "height": 6, "kernel": 5}
    images, kernels, bias = images_and_kernels(**{**usual, **change})
    torch.testing.assert_close(
        conv2d(images, kernels, bias), functional.conv2d(images, kernels, bias), rtol=1e-4, atol=1e-4
    )
    assert bool(taken) == is_taken


def test_other_types_strides_and_compilers_get_the_direct_one(monkeypatch):
    def refused(*arguments):
        raise AssertionError("not here")

    monkeypatch.setattr(_fourier, "fourier_conv2d", refused)
    images, kernels, bias = images_and_kernels(_fourier.LEAST_BATCH, ENOUGH, ENOUGH, 6, 6, 5)
    assert conv2d(images.double(), kernels.double(), bias.double()).dtype == torch.float64
    assert conv2d(images, kernels, bias, stride=2).shape[2:] == (1, 1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert conv2d(images, kernels, bias).dtype == torch.bfloat16
    layer = Conv2d(ENOUGH, ENOUGH, 5)
    exported = torch.export.export(layer, (images,))
    calls = [str(node.target) for node in exported.graph.nodes if node.op == "call_function"]
    assert calls == ["aten.conv2d.default"]


def test_the_layer_is_torchs_with_the_same_weights():
    torch.manual_seed(0)
    layer = Conv2d(3, 4, 5, padding=2)
    torch.manual_seed(0)
    expected = nn.Conv2d(3, 4, 5, padding=2)
    images = torch.randn(2, 3, 8, 8)
    assert list(layer.state_dict()) == ["weight", "bias"]
    assert torch.equal(layer(images), expected(images))


def test_the_papers_large_network_is_computed_by_it():
    torch.manual_seed(0)
    network = LeNetSpec.cifar5().build().eval()
    images = torch.rand(_fourier.LEAST_BATCH, 3, 32, 32)
    with torch.no_grad():
        together = network(images)
        one_by_one = torch.cat([network(images[:4]), network(images[4:])])
    # The first by Fourier transforms, the others directly: equal but for rounding.
    torch.testing.assert_close(together, one_by_one, rtol=1e-4, atol=1e-5)
    assert not torch.equal(together, one_by_one)


def test_gradients_after_a_first_use_without_them():
    _fourier.make_transforms.cache_clear()
    images, kernels, _ = images_and_kernels()
    with torch.inference_mode():
        fourier_conv2d(images, kernels, None)
    kernels.requires_grad_()
    expected = functional.conv2d(images, kernels)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(0))
    (direct,) = torch.autograd.grad((weights * expected).sum(), kernels)
    (found,) = torch.autograd.grad((weights * fourier_conv2d(images, kernels, None)).sum(), kernels)
    torch.testing.assert_close(found, direct, rtol=1e-4, atol=1e-4 * float(direct.abs().max()))
