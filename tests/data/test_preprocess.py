import pytest
import torch

from nescio.data.preprocess import Preprocess, input_range_of
from nescio.errors import InputError


def test_mean_zero_and_scale_one_for_each_column():
    inputs = torch.randn(5000, 3, dtype=torch.float64) * 7 + 3
    out = Preprocess.fit(inputs)(inputs)
    torch.testing.assert_close(out.mean(0), torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(out.std(0, correction=0), torch.ones(3, dtype=torch.float64))


def test_bytes_keep_their_zero_and_reach_one():
    images = torch.randint(256, (10, 3, 4, 4), dtype=torch.uint8)
    fitted = Preprocess.fit(images)
    assert fitted == Preprocess((3, 4, 4), (0.0,) * 3, (255.0,) * 3, pixel_range=(0.0, 255.0))
    assert fitted(images).dtype == torch.float32
    torch.testing.assert_close(fitted(images), images.float() / 255)
    assert fitted(images.double()).dtype == torch.float64


def test_images_of_other_numbers_get_the_same_range():
    images = torch.randn(10, 2, 4, 4)
    assert Preprocess.fit(images)(images).abs().max().item() == pytest.approx(1.0)
    assert Preprocess.fit(torch.zeros(2, 1, 4, 4)).scale == (1.0,)


def test_the_range_is_that_of_the_scaled_inputs():
    rows = torch.tensor([[1.0, -2.0], [4.0, 6.0], [2.0, 0.0]])
    fitted = Preprocess.fit(rows)
    out = fitted(rows)
    torch.testing.assert_close(fitted.input_range(input_range_of(rows)), out.amax(0) - out.amin(0))
    images = torch.randint(256, (10, 3, 4, 4), dtype=torch.uint8)
    out = Preprocess.fit(images)(images)
    torch.testing.assert_close(
        Preprocess.fit(images).input_range(input_range_of(images)), out.amax((0, 2, 3)) - out.amin((0, 2, 3))
    )


def test_a_weight_counts_like_repetition():
    inputs = torch.randn(6, 2, dtype=torch.float64)
    weights = torch.tensor([1.0, 0, 2, 1, 3, 0])
    repeated = inputs.repeat_interleave(weights.long(), 0)
    assert Preprocess.fit(inputs, weights).mean == pytest.approx(Preprocess.fit(repeated).mean)
    assert Preprocess.fit(inputs, weights).scale == pytest.approx(Preprocess.fit(repeated).scale)


def test_what_never_changes_is_left_alone():
    fitted = Preprocess.fit(torch.tensor([[0.1, 1.0], [0.1, 2.0], [0.1, 3.0]]))
    assert fitted.scale[0] == 1.0
    assert fitted(torch.tensor([[0.1, 2.0]])).abs().max() < 1e-6


@pytest.mark.parametrize("scale", [(0.0,), (-1.0,), (float("nan"),), (1.0, 1.0)])
def test_scales_that_can_not_be(scale):
    with pytest.raises(InputError, match="scale must be one positive number for each mean"):
        Preprocess((1,), (0.0,), scale)


def test_a_mean_that_can_not_be():
    with pytest.raises(InputError, match="mean must be finite"):
        Preprocess((1,), (float("nan"),), (1.0,))


@pytest.mark.parametrize("position", [-1, 3, 0.5])
def test_a_label_that_can_not_be_there(position):
    with pytest.raises(InputError, match="label_position must be a whole number from 0 to 2"):
        Preprocess((2,), (0.0, 0.0), (1.0, 1.0), label_position=position)
