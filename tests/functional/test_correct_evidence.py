import pytest
import torch

import nescio as ev
from nescio.functional import correct_evidence_regularizer


def batch(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    logits = 5 * torch.randn(6, 4, generator=generator, dtype=dtype)
    return logits.requires_grad_(), torch.arange(6) % 4


@pytest.mark.parametrize("prior", [1.0, 0.1])
@pytest.mark.parametrize("function", [torch.relu, torch.exp, torch.nn.functional.softplus])
def test_value_and_gradient_are_the_formula(function, prior):
    logits, targets = batch()
    evidence = function(logits.detach())
    value = correct_evidence_regularizer(logits, evidence, targets, prior=prior)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    for row in range(6):
        own = int(targets[row])
        uncertainty = 4 * prior / (float(evidence[row].sum()) + 4 * prior)
        assert value[row].item() == pytest.approx(-uncertainty * float(logits.detach()[row, own]), rel=1e-12)
        expected = torch.zeros(4, dtype=torch.float64)
        expected[own] = -uncertainty  # u is a constant: nothing for the other classes
        torch.testing.assert_close(gradient[row], expected)


def test_soft_labels_share_the_reward():
    logits, targets = batch()
    evidence = logits.detach().relu()
    one_hot = torch.nn.functional.one_hot(targets, 4).double()
    hard = correct_evidence_regularizer(logits, evidence, targets)
    torch.testing.assert_close(correct_evidence_regularizer(logits, evidence, one_hot), hard)
    soft = torch.tensor([[0.5, 0.25, 0.25, 0.0]], dtype=torch.float64).expand(6, 4)
    value = correct_evidence_regularizer(logits, evidence, soft)
    uncertainty = 4 / (evidence.sum(1) + 4)
    torch.testing.assert_close(value, -uncertainty * (soft * logits).sum(1))


def test_ignored_samples_give_nothing():
    logits, targets = batch()
    targets[2] = -100
    value = correct_evidence_regularizer(logits, logits.relu(), targets)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    assert value[2].item() == 0
    assert gradient[2].abs().max() == 0
    assert gradient[1].abs().max() > 0


def test_dense_prediction_is_sample_by_sample():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3, 4, 5, generator=generator)
    targets = torch.randint(3, (2, 4, 5), generator=generator)
    dense = correct_evidence_regularizer(logits, logits.relu(), targets)
    rows = logits.movedim(1, -1).reshape(-1, 3)
    expected = correct_evidence_regularizer(rows, rows.relu(), targets.reshape(-1))
    torch.testing.assert_close(dense.reshape(-1), expected)


@pytest.mark.parametrize("size", [1e4, 1e15])
def test_large_outputs_stay_finite(size):
    logits = torch.tensor([[size, -size], [-size, -size]], requires_grad=True)
    value = correct_evidence_regularizer(logits, logits.relu(), torch.tensor([0, 1]))
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    assert bool(value.isfinite().all())
    assert bool(gradient.isfinite().all())
    assert value[0].item() == pytest.approx(-2, rel=1e-3)
    assert value[1].item() == pytest.approx(size, rel=1e-6)


def test_half_precision_becomes_single():
    logits = torch.tensor([[1.0, -2.0]], dtype=torch.bfloat16)
    value = correct_evidence_regularizer(logits, logits.relu(), torch.tensor([0]))
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(-2 / 3)


@pytest.mark.parametrize(
    ("evidence", "targets", "message"),
    [
        (torch.ones(1, 3), torch.tensor([0]), r"evidence must be \(1, 2\) like the logits"),
        (-torch.ones(1, 2), torch.tensor([0]), "evidence must be finite and zero or more"),
        (torch.ones(1, 2), torch.tensor([2]), r"targets must be 0\.\.1"),
        (torch.ones(1, 2), torch.tensor([[0.5, 0.7]]), "targets must be soft labels"),
        (torch.ones(1, 2), [0], "targets must be a tensor"),
    ],
)
def test_bad_arguments(evidence, targets, message):
    with pytest.raises(ev.InputError, match=message):
        correct_evidence_regularizer(torch.zeros(1, 2), evidence, targets)
