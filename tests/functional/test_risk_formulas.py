"""The formulas of the risks against the public functions, which other tests hold against mpmath."""

import pytest
import torch

from nescio import functional
from nescio.functional._kernels.rowwise import strengths_of
from nescio.functional._risk_formulas import RISKS

FUNCTIONS = {
    "type2": functional.type2_likelihood,
    "cross_entropy": functional.cross_entropy_risk,
    "squared_error": functional.squared_error_risk,
    "brier": functional.brier_risk,
}


def value_and_gradient(risk, evidence, targets, prior):
    evidence = evidence.clone().requires_grad_()
    value = FUNCTIONS[risk](evidence, targets, prior=prior)
    (gradient,) = torch.autograd.grad(value.sum(), evidence)
    return value.detach(), gradient


@pytest.mark.parametrize("prior", [1.0, 0.1, 2.5])
@pytest.mark.parametrize("risk", RISKS)
def test_the_terms_of_a_risk_have_its_gradient(risk, prior):
    """What the fast evaluation uses: A + B e_j for wrong classes, C for the true one."""
    evidence = torch.tensor([[40.0, 0.1, 3.0, 0.0]], dtype=torch.float64)
    value, gradient = value_and_gradient(risk, evidence, torch.tensor([0]), prior)
    own, wrong = evidence[:, 0], evidence[:, 1:]
    strengths = strengths_of(own, wrong.sum(1), wrong.square().sum(1), 4, prior)
    terms = RISKS[risk].terms(strengths, prior)
    slope = torch.zeros(1, dtype=torch.float64) if terms.wrong_slope is None else terms.wrong_slope
    found = torch.cat([terms.own[:, None], terms.wrong[:, None] + slope[:, None] * wrong], 1)
    torch.testing.assert_close(terms.value, value, rtol=1e-10, atol=1e-14)
    torch.testing.assert_close(found, gradient, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("prior", [1.0, 0.1, 2.5])
@pytest.mark.parametrize("risk", RISKS)
def test_soft_labels_of_one_class_are_that_class(risk, prior):
    """Also where that class has nearly all evidence, and all but it cancels."""
    evidence = torch.tensor([[4e9, 0.1, 3.0, 0.0], [0.5, 7.0, 7.0, 1e-6]], dtype=torch.float64)
    targets = torch.tensor([0, 2])
    labels = torch.nn.functional.one_hot(targets, 4).double()
    found = RISKS[risk].soft_terms(evidence, labels, prior, torch.float64)
    expected = value_and_gradient(risk, evidence, targets, prior)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-25)
