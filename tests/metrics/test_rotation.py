import math

import numpy as np
import pytest
import torch
from scipy import ndimage
from tests.metrics.naive import naive_rotation

from nescio.errors import InputError
from nescio.metrics import narrowest, rotate


def noise(*shape, seed=0):
    return torch.randint(256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def apart(one, other):
    """The largest difference in grey levels."""
    return (one.int() - other.int()).abs().max().item()


SHAPES = [
    (1, 28, 28),
    (3, 32, 32),
    (3, 7, 12),
    (2, 13, 4),
    (1, 1, 1),
    (1, 1, 5),
    (4, 2, 9, 9),
    (1, 3, 640, 480),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_no_turn_is_the_identity_to_the_bit(shape):
    images = noise(*shape)
    turned = rotate(images, [0.0])
    assert turned.dtype == torch.uint8
    assert torch.equal(turned[0], images)


@pytest.mark.parametrize("shape", SHAPES)
def test_half_a_turn_is_a_flip_and_twice_the_identity(shape):
    images = noise(*shape)
    once = rotate(images, [180.0])[0]
    assert apart(once, images.flip((-2, -1))) <= 1
    assert apart(rotate(once, [180.0])[0], images) <= 1


@pytest.mark.parametrize("size", [1, 2, 9, 28, 33])
@pytest.mark.parametrize("quarters", [-1, 1, 2, 3, 4, 5])
def test_a_quarter_is_that_of_torch(size, quarters):
    images = noise(2, 3, size, size)
    assert apart(rotate(images, [90.0 * quarters])[0], torch.rot90(images, quarters, dims=(-2, -1))) <= 1


def test_counter_clockwise_as_seen():
    image = torch.zeros(1, 3, 3, dtype=torch.uint8)
    image[0, 1, 2] = 255  # three o'clock
    assert rotate(image, [90.0])[0, 0].tolist() == [[0, 255, 0], [0, 0, 0], [0, 0, 0]]  # twelve
    assert rotate(image, [-90.0])[0, 0].tolist() == [[0, 0, 0], [0, 0, 0], [0, 255, 0]]  # six


@pytest.mark.parametrize("degrees", [10.0, 45.0, 90.0, 133.3, -20.0, 250.0, 725.0])
@pytest.mark.parametrize("shape", [(9, 9), (6, 11), (12, 5)])
def test_any_turn_is_the_loop(degrees, shape):
    image = noise(1, *shape)
    expected = torch.tensor(naive_rotation(image[0].tolist(), degrees))
    assert (rotate(image, [degrees])[0, 0] - expected).abs().max() <= 0.51


@pytest.mark.parametrize("degrees", [30.0, 77.0, 160.0])
def test_any_turn_is_that_of_scipy(degrees):
    image = noise(1, 20, 15)
    expected = ndimage.rotate(
        image[0].numpy().astype(np.float64), degrees, reshape=False, order=1, mode="grid-constant"
    )
    assert np.abs(rotate(image, [degrees])[0, 0].numpy() - expected).max() <= 0.51


def test_outside_is_black():
    white = torch.full((1, 28, 28), 255, dtype=torch.uint8)
    turned = rotate(white, [45.0])[0, 0]
    assert [turned[y, x].item() for y in (0, -1) for x in (0, -1)] == [0, 0, 0, 0]
    assert turned[14, 14] == 255


@pytest.mark.parametrize(
    "degrees", [[0.0, 90.0, 180.0], range(0, 181, 20), np.arange(3), torch.arange(2.0), (7,)]
)
def test_one_copy_for_each_angle(degrees):
    images = noise(5, 1, 8, 8)
    turned = rotate(images, degrees)
    assert turned.shape == (len(degrees), 5, 1, 8, 8)
    for i, angle in enumerate(degrees):
        for n in range(5):
            assert torch.equal(turned[i, n], rotate(images[n], [float(angle)])[0])


def test_a_view_is_as_good_as_a_copy():
    images = noise(1, 8, 6).transpose(1, 2)
    assert torch.equal(rotate(images, [30.0]), rotate(images.contiguous(), [30.0]))


@pytest.mark.parametrize(
    "images", [torch.rand(1, 8, 8), noise(8, 8), noise(1, 1, 1, 8, 8), np.zeros((1, 8, 8), np.uint8), None]
)
def test_other_images_are_refused(images):
    with pytest.raises(InputError, match=r"images must be uint8 \(C, H, W\) or \(N, C, H, W\), got "):
        rotate(images, [0.0])


@pytest.mark.parametrize("shape", [(0, 1, 8, 8), (1, 0, 8)])
def test_no_images_are_refused(shape):
    with pytest.raises(InputError, match="images must have one pixel or more, got uint8"):
        rotate(noise(*shape), [0.0])


@pytest.mark.parametrize("degrees", [[], [math.nan], [0.0, math.inf]])
def test_angles_are_finite_and_there_are_some(degrees):
    with pytest.raises(InputError, match="degrees must be one finite angle or more, got "):
        rotate(noise(1, 4, 4), degrees)


@pytest.mark.parametrize("degrees", [90.0, None, ["left"], [None]])
def test_angles_are_a_sequence_of_numbers(degrees):
    with pytest.raises(InputError, match="degrees must be a sequence of numbers, got "):
        rotate(noise(1, 4, 4), degrees)


def test_the_narrowest_is_the_first_with_the_fewest_columns_of_ink():
    images = torch.zeros(4, 1, 5, 6, dtype=torch.uint8)
    images[0, 0, 2, :] = 9
    images[1, 0, :, 2:4] = 9
    images[2, 0, 0, 4:6] = 200
    images[3, 0, :, :3] = 9
    assert torch.equal(narrowest(images), images[1])


@pytest.mark.parametrize("shape", [(1, 8, 8), (0, 1, 8, 8)])
def test_the_narrowest_of_no_images(shape):
    with pytest.raises(InputError, match="images must "):
        narrowest(noise(*shape))
