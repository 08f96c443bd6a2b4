"""Soft labels: value and gradient made together are those of the plain formulas in float64."""

import pytest
import torch

from nescio import EvidentialLoss, IEDLLoss
from nescio.functional import risks
from nescio.functional._kernels import soft
from nescio.functional._kernels.rowwise import RowLoss
from nescio.functional._risk_formulas import RISKS
from nescio.functional.evidence import ACTIVATIONS


def rows(count, num_classes, scale, sharpness, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, num_classes, generator=generator) * scale
    return x, (torch.randn(count, num_classes, generator=generator) * sharpness).softmax(1)


@pytest.mark.parametrize("weight", [0.0, 0.7])
@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_as_the_plain_formulas_in_float64(activation, risk, weight, monkeypatch):
    monkeypatch.setattr(soft, "BLOCK_ELEMENTS", 60)  # several blocks, the last one smaller
    loss = RowLoss(ACTIVATIONS[activation], RISKS[risk], weight)
    for scale in (0.1, 1.0, 8.0):
        for sharpness in (1.0, 50.0):  # soft, and nearly class indices
            x, labels = rows(13, 12, scale, sharpness)
            exact = x.double().requires_grad_(True)
            expected = risks._plain_soft_loss(exact, labels.double(), loss)
            slope = torch.autograd.grad(expected.sum(), exact)[0]
            # Torch's own softplus is linear from 20 on, and its derivative 1: nine digits.
            digits = 1e-8 if activation == "softplus" else 1e-11
            for dtype, tolerance in ((torch.float32, 2e-6), (torch.float64, digits)):
                given = x.to(dtype).requires_grad_(True)
                value = risks._soft_loss(given, labels.to(dtype), loss)
                gradient = torch.autograd.grad(value.sum(), given)[0]
                assert value.dtype == dtype
                torch.testing.assert_close(value.double(), expected, rtol=tolerance, atol=tolerance / 1e4)
                largest = slope.abs().amax(1, keepdim=True)
                assert ((gradient - slope).abs() <= 3 * tolerance * largest).all()


@pytest.mark.parametrize("risk", RISKS)
def test_derivatives(risk):
    x, labels = rows(2, 4, 1.0, 1.0)
    x = x.double().requires_grad_(True)
    loss = EvidentialLoss(risk=risk, annealing_epochs=0)
    assert torch.autograd.gradcheck(lambda z: loss(z, labels.double()), x)
    assert torch.autograd.gradgradcheck(lambda z: loss(z, labels.double()), x)


def test_without_gradients_it_is_the_same():
    x, labels = rows(4, 3, 1.0, 1.0)
    loss = EvidentialLoss(annealing_epochs=0)
    expected = float(loss(x, labels))
    with torch.inference_mode():
        assert float(loss(x, labels)) == pytest.approx(expected)
        kept = x + 0
    assert float(loss(kept, labels)) == pytest.approx(expected)


def test_who_differentiates_by_the_labels_gets_the_plain_formulas():
    x, labels = rows(3, 4, 1.0, 1.0)
    labels.requires_grad_(True)
    value = EvidentialLoss(annealing_epochs=0, validate=False)(x, labels)
    assert torch.autograd.grad(value, labels)[0].abs().sum() > 0


def test_a_risk_without_formulas_for_its_gradient_is_as_before():
    x, labels = rows(3, 4, 1.0, 1.0)
    x.requires_grad_(True)
    value = IEDLLoss(annealing_epochs=0)(x, labels)
    assert torch.autograd.grad(value, x)[0].isfinite().all()
