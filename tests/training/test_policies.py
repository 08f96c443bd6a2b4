"""Augmentation by a policy: what is drawn is what is done, and nothing but it."""

import math

import pytest
import torch
from torch.nn.functional import interpolate

from nescio.training._policies import LIGHT, STRONG, Changes, apply_changes, draw_changes


def unchanged(count):
    ones = torch.ones(count)
    affine = torch.eye(3)[:2].repeat(count, 1, 1)
    return Changes(affine, ones, ones, ones, torch.full((count,), 8), torch.full((count,), 2.0))


def photos(count=4, channels=3, height=12, width=16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, (count, channels, height, width), generator=generator, dtype=torch.uint8)


def draw(policy, count=64, seed=0):
    return draw_changes(count, policy, 4 / 3, torch.Generator().manual_seed(seed))


def test_without_changes_an_image_stays_as_it_is():
    images = photos()
    assert torch.equal(apply_changes(images, unchanged(4)), images)
    floats = images.float() / 255
    torch.testing.assert_close(apply_changes(floats, unchanged(4)), floats, rtol=1e-5, atol=1e-6)


def test_a_crop_is_a_part_at_full_size():
    images = photos(1, height=16, width=16)
    changes = unchanged(1)
    changes.affine[0] = torch.tensor([[0.5, 0, -0.5], [0, 0.5, 0.5]])  # the quarter at the left, below
    found = apply_changes(images.float(), changes)
    part = images[:, :, 8:, :8].float()
    expected = interpolate(part, size=(16, 16), mode="bilinear", align_corners=False)
    torch.testing.assert_close(found[..., 2:-2, 2:-2], expected[..., 2:-2, 2:-2], rtol=1e-4, atol=1e-2)


def test_mirrored():
    images = photos(1)
    changes = unchanged(1)
    changes.affine[0, 0, 0] = -1
    assert torch.equal(apply_changes(images, changes), images.flip(3))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("brightness", 0.5, [[100, 50, 20]]),
        ("contrast", 0.0, [[124, 124, 124]]),  # the grey of the pixel, which is the image's
        ("saturation", 0.0, [[124, 124, 124]]),
        ("bits", 1, [[128, 0, 0]]),
        ("solarized_from", 0.5, [[55, 100, 40]]),
    ],
)
def test_colours(name, value, expected):
    image = torch.tensor([200, 100, 40], dtype=torch.uint8).view(1, 3, 1, 1).expand(1, 3, 4, 4)
    changes = unchanged(1)._replace(**{name: torch.tensor([value])})
    found = apply_changes(image.contiguous(), changes)
    grey = 0.299 * 200 + 0.587 * 100 + 0.114 * 40
    assert round(grey) == 123
    close = torch.tensor(expected, dtype=torch.float).view(1, 3, 1, 1)
    assert (found.float() - close).abs().max() <= 1


def test_a_light_policy_crops_and_mirrors_and_leaves_colours():
    changes = draw(LIGHT, 2000)
    width = changes.affine[:, 0, 0].abs()
    height = changes.affine[:, 1, 1]
    area = width * height
    assert 0.45 <= float(area.min()) <= 0.55
    assert float(area.max()) <= 1
    assert 0.45 < float((changes.affine[:, 0, 0] < 0).float().mean()) < 0.55
    # No crop reaches beyond the image.
    assert float((changes.affine[:, 0, 2].abs() + width).max()) <= 1 + 1e-6
    assert float((changes.affine[:, 1, 2].abs() + height).max()) <= 1 + 1e-6
    for values, plain in zip(changes[1:], unchanged(2000)[1:], strict=True):
        assert torch.equal(values, plain)


def test_a_strong_policy_changes_all_there_is():
    changes = draw(STRONG, 500)
    for values, plain in zip(changes[1:], unchanged(500)[1:], strict=True):
        assert not torch.equal(values, plain)
    assert 4 <= int(changes.bits.min()) < 8
    turns = torch.atan2(changes.affine[:, 1, 0], changes.affine[:, 1, 1])
    assert float(turns.abs().max()) > math.radians(10)


def test_a_turn_is_a_turn_in_an_image_that_is_not_square():
    """What is drawn allows for the sides of the image: a bar that is turned keeps its length and width."""
    height, width = 64, 128
    down = torch.arange(height).view(-1, 1) - 31.5
    across = torch.arange(width).view(1, -1) - 63.5
    bar = ((down.abs() < 3) & (across.abs() < 24)).float().view(1, 1, height, width)
    angle = math.radians(90)
    changes = unchanged(1)
    aspect = width / height
    changes.affine[0, :, :2] = torch.tensor(
        [[math.cos(angle), -math.sin(angle) / aspect], [math.sin(angle) * aspect, math.cos(angle)]]
    )
    turned = apply_changes(bar, changes)[0, 0]
    upright = ((across.abs() < 3) & (down.abs() < 24)).float()
    inside = slice(32, 96)  # beyond, the map leaves the image, and shows it mirrored
    assert float((turned - upright)[:, inside].abs().mean()) < 0.01


@pytest.mark.parametrize("policy", [LIGHT, STRONG])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_any_number_of_channels_and_bytes_stay_bytes(policy, channels):
    images = photos(8, channels)
    changes = draw(policy, 8)
    found = apply_changes(images, changes)
    assert (found.dtype, found.shape) == (torch.uint8, images.shape)
    assert not torch.equal(found, images)
    assert torch.equal(found, apply_changes(images, draw(policy, 8)))  # the same draws, the same images
    some = torch.tensor([5, 2])
    assert torch.equal(apply_changes(images[some], changes.take(some)), found[some])
