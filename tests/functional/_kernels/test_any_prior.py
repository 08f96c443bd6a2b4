import pytest
import torch
from tests import references as ref

from nescio.functional._kernels.any_prior import divergence_from

PRIORS = [1e-6, 0.1, 0.8, 1.0, 10.0, 1e6]
ROWS = {
    "none": [0.0, 0.0, 0.0],
    "small": [1e-6, 1e-6, 1e-6],
    "least": [1e-6, 0.0, 0.0],
    "mixed": [1e-6, 1.0, 1e6],
    "large": [1e6, 1e6, 1e6],
    "one large": [1e6, 0.0, 0.0],
    "huge": [1e15, 1e15, 3.0],
    "two": [0.3, 7.0],
    "many": [0.01 * k for k in range(100)],
}


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_value_and_gradient_are_exact(row, prior):
    evidence = torch.tensor([row], dtype=torch.float64, requires_grad=True)
    value = divergence_from(evidence, prior)
    (gradient,) = torch.autograd.grad(value.sum(), evidence)
    assert value.item() == pytest.approx(float(ref.exact_divergence_from(row, prior)), rel=1e-7, abs=0)
    expected = [float(slope) for slope in ref.exact_divergence_from_gradient(row, prior)]
    largest = max(abs(slope) for slope in expected)
    assert gradient[0].tolist() == pytest.approx(expected, rel=0, abs=1e-7 * largest)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_with_prior_one_it_is_the_kernels(row):
    value = divergence_from(torch.tensor([row], dtype=torch.float64), 1.0)
    assert value.item() == pytest.approx(float(ref.exact_divergence(row)), rel=1e-7, abs=0)


def test_it_can_be_differentiated_twice():
    evidence = torch.tensor([[0.02, 0.5, 30.0], [1e-3, 2e-3, 0.4]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda e: divergence_from(e, 0.3), evidence)
