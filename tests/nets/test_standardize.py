import pytest
import torch

from evidentia.errors import InputError
from evidentia.nets import Standardize


@pytest.mark.parametrize("shape", [(5000, 3), (4500, 2, 3, 4)])
def test_mean_zero_and_scale_one_for_each_channel(shape):
    inputs = torch.randn(*shape, dtype=torch.float64) * 7 + 3
    out = Standardize.fit(inputs)(inputs)
    axes = [axis for axis in range(len(shape)) if axis != 1]
    torch.testing.assert_close(out.mean(axes), torch.zeros(shape[1], dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(out.std(axes, correction=0), torch.ones(shape[1], dtype=torch.float64))


def test_bytes_become_float32():
    images = torch.randint(256, (10, 1, 4, 4), dtype=torch.uint8)
    fitted = Standardize.fit(images)
    assert fitted(images).dtype == torch.float32
    assert fitted.mean[0] == pytest.approx(images.double().mean().item())
    assert fitted(images.double()).dtype == torch.float64


def test_a_weight_counts_like_repetition():
    inputs = torch.randn(6, 2, dtype=torch.float64)
    weights = torch.tensor([1.0, 0, 2, 1, 3, 0])
    repeated = inputs.repeat_interleave(weights.long(), 0)
    assert Standardize.fit(inputs, weights).mean == pytest.approx(Standardize.fit(repeated).mean)
    assert Standardize.fit(inputs, weights).scale == pytest.approx(Standardize.fit(repeated).scale)


def test_what_never_changes_is_left_alone():
    fitted = Standardize.fit(torch.tensor([[0.1, 1.0], [0.1, 2.0], [0.1, 3.0]]))
    assert fitted.scale[0] == 1.0
    assert fitted(torch.tensor([[0.1, 2.0]])).abs().max() < 1e-6


@pytest.mark.parametrize("scale", [(0.0,), (-1.0,), (float("nan"),), (1.0, 1.0)])
def test_scales_that_can_not_be(scale):
    with pytest.raises(InputError, match="scale must be one positive number for each mean"):
        Standardize((0.0,), scale)
