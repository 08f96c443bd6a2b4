import pytest
import torch
from scipy.special import polygamma

from nescio.functional._kernels import coefficients
from nescio.functional._kernels.divergence import POLE, SCALE


@pytest.mark.parametrize(
    ("fitted", "tolerance"), [(coefficients.FLOAT32, 1e-6), (coefficients.FLOAT64, 1e-13)]
)
def test_the_slope_is_that_of_digamma(fitted, tolerance):
    """psi'(1 + e) = (1 + v A(v)) / (e + POLE), v = 1 / ((e + POLE) SCALE)."""
    e = torch.logspace(-3, 6, 50, dtype=torch.float64)
    v = 1 / ((e + POLE) * SCALE)
    value = torch.zeros_like(v)
    for coefficient in reversed(fitted.slope):
        value = value * v + coefficient
    found = (1 + v * value) / (e + POLE)
    expected = torch.from_numpy(polygamma(1, 1 + e.numpy()))
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=0)
