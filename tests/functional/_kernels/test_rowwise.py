import pytest
import torch

import nescio as ev
from nescio.functional import evidence
from nescio.functional._kernels import rowwise


@pytest.mark.parametrize("classes", [3, 10, 50])
@pytest.mark.parametrize("risk", ["squared_error", "cross_entropy", "type2"])
def test_no_value_is_looked_at_on_other_devices(risk, classes):
    """Meta tensors have no values: whatever looks at one fails."""
    logits = torch.empty(6, classes, device="meta", requires_grad=True)
    targets = torch.empty(6, dtype=torch.int64, device="meta")
    value = ev.EvidentialLoss(risk=risk)(logits, targets, epoch=5)
    (gradient,) = torch.autograd.grad(value, logits)
    assert value.shape == ()
    assert gradient.shape == (6, classes)


def test_inside_a_compiled_program_the_value_is_the_same(monkeypatch):
    logits, targets = torch.randn(6, 10), torch.arange(6)
    loss = ev.EvidentialLoss()
    plain = loss(logits, targets, epoch=5)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    torch.testing.assert_close(loss(logits, targets, epoch=5), plain, rtol=2e-6, atol=0)


@pytest.mark.parametrize("name", evidence.ACTIVATIONS)
def test_the_three_forms_of_an_activation_agree(name):
    activation = evidence.ACTIVATIONS[name]
    logits = torch.linspace(-5.25, 5.0, 20, dtype=torch.float64, requires_grad=True)
    values = activation.function(logits)
    held = activation.into(logits.detach(), torch.empty(20, dtype=torch.float64))
    torch.testing.assert_close(held, values.detach())
    weight = torch.linspace(1, 2, 20, dtype=torch.float64)
    (expected,) = torch.autograd.grad((values * weight).sum(), logits)
    torch.testing.assert_close(activation.chain(held, weight), expected, rtol=1e-9, atol=1e-12)


def test_textbook_divergence_agrees_where_it_can():
    rows = torch.rand(5, 6, dtype=torch.float64) * 20
    expected = rowwise.textbook_divergence(rows)
    torch.testing.assert_close(ev.functional.divergence(rows), expected, rtol=1e-10, atol=0)
