import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import nescio as ev
from nescio.functional.evidence import (
    EVIDENCE_FUNCTIONS,
    evidence_function,
    exp,
    log_evidence,
    logits_for,
    relu,
    softplus,
)


def test_values():
    z = torch.tensor([-2.0, 0.0, 3.0], dtype=torch.float64)
    assert relu(z).tolist() == [0, 0, 3]
    torch.testing.assert_close(softplus(z), torch.log1p(z.exp()))
    torch.testing.assert_close(exp(z), z.exp())


@pytest.mark.parametrize("name", EVIDENCE_FUNCTIONS)
def test_derivatives(name):
    z = torch.linspace(-4.5, 4.5, 8, dtype=torch.float64, requires_grad=True)
    assert gradcheck(evidence_function(name), (z,))
    assert gradgradcheck(evidence_function(name), (z,))


@pytest.mark.parametrize("z", [-1e30, -50.0, -10.5, 30.5, 89.0, 1e30])
def test_exp_is_held_but_its_gradient_goes_on(z):
    logit = torch.tensor(z, requires_grad=True)
    e = exp(logit)
    held = max(-10.0, min(30.0, z))
    assert e.item() == pytest.approx(torch.tensor(held).exp().item())
    assert torch.autograd.grad(e, logit)[0].item() == pytest.approx(e.item())


def test_exp_under_vmap():
    z = torch.randn(3, 4)
    torch.testing.assert_close(torch.vmap(exp)(z), z.exp())


def test_any_callable_is_taken_as_it_is():
    assert evidence_function(torch.abs) is torch.abs


def test_an_unknown_name():
    with pytest.raises(ev.InputError, match="evidence must be one of relu, softplus, exp"):
        evidence_function("sigmoid")


@pytest.mark.parametrize("name", ["exp", "softplus"])
def test_the_logarithm_of_evidence(name):
    z = torch.linspace(-9.5, 25, 40, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(log_evidence(name, z), evidence_function(name)(z).log())
    assert gradcheck(lambda given: log_evidence(name, given), (z,))
    far = torch.tensor([-3e38, -200.0, 3e38], requires_grad=True)
    logs = log_evidence(name, far)
    assert bool(logs.isfinite().all())
    logs.sum().backward()
    assert bool(far.grad.isfinite().all())


def test_the_logarithm_of_softplus_where_it_is_next_to_nothing():
    z = torch.tensor([-300.0, -40.0, -30.5, -29.5], dtype=torch.float64)
    torch.testing.assert_close(log_evidence("softplus", z), z, rtol=0, atol=1e-12)


def test_relu_has_no_logarithm():
    with pytest.raises(
        ev.InputError, match="evidence must be exp or softplus to have a logarithm, got 'relu'"
    ):
        log_evidence("relu", torch.zeros(2))


@pytest.mark.parametrize("name", EVIDENCE_FUNCTIONS)
def test_logits_for_evidence(name):
    values = torch.tensor([1e-4, 0.5, 3.0, 1e6], dtype=torch.float64)
    torch.testing.assert_close(evidence_function(name)(logits_for(name, values)), values)
    assert bool(logits_for(name, torch.zeros(3)).isfinite().all())


def test_relu_has_one_gradient_at_zero_on_every_path():
    logits = torch.zeros(1, 3, requires_grad=True)
    loss = ev.EvidentialLoss(risk="squared_error", evidence="relu")
    loss(logits, torch.tensor([0]), epoch=1).backward()
    assert logits.grad.tolist() == [[0.0, 0.0, 0.0]]
    logits.grad = None
    loss(logits, torch.tensor([[1.0, 0.0, 0.0]]), epoch=1).backward()
    assert logits.grad.tolist() == [[0.0, 0.0, 0.0]]
