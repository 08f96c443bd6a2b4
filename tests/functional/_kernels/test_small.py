"""The evaluation of small inputs: the numbers of the one in blocks, to the digits of a float32."""

import pytest
import torch

from nescio import EvidentialLoss
from nescio.functional._kernels import small
from nescio.functional._kernels.rowwise import RowLoss, evaluate
from nescio.functional._kernels.small import evaluate_small, is_small
from nescio.functional._risk_formulas import RISKS
from nescio.functional.evidence import ACTIVATIONS, IDENTITY


def rows(count, num_classes, scale, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, num_classes, generator=generator) * scale
    return x, torch.randint(num_classes, (count,), generator=generator)


@pytest.mark.parametrize("risk", [*RISKS, None])
@pytest.mark.parametrize("activation", [*ACTIVATIONS, None])
def test_as_in_float64(activation, risk):
    for num_classes in (8, 10, 31, 32, 400):
        for scale in (1e-4, 1.0, 8.0):
            x, targets = rows(40, num_classes, scale)
            if activation is None:
                x = x.abs()
            loss = RowLoss(ACTIVATIONS.get(activation, IDENTITY), RISKS.get(risk), 0.7, 0.25)
            value, gradient = evaluate_small(x, targets, loss)
            expected, slope = evaluate(x.double(), targets, loss)
            torch.testing.assert_close(value, expected, rtol=2e-6, atol=1e-30)
            # A gradient may cancel: its digits are those of the largest in its row.
            largest = slope.abs().amax(1, keepdim=True)
            assert ((gradient - slope).abs() <= 5e-6 * largest + 1e-30).all()


def test_rows_without_and_with_hardly_any_evidence():
    x = torch.tensor([[0.0] * 8, [1e-12] * 8, [1e12] + [0.0] * 7, [1e-12, 1e12] * 4])
    targets = torch.tensor([0, 1, 1, 0])
    loss = RowLoss(IDENTITY, RISKS["squared_error"], 1.0)
    value, gradient = evaluate_small(x, targets, loss)
    expected, slope = evaluate(x.double(), targets, loss)
    torch.testing.assert_close(value, expected, rtol=2e-6, atol=1e-30)
    torch.testing.assert_close(gradient.double(), slope, rtol=1e-5, atol=1e-30)


def test_without_targets_no_class_is_left_out():
    x, _ = rows(40, 10, 2.0)
    loss = RowLoss(ACTIVATIONS["exp"], None, 0.7, 0.25)
    value, gradient = evaluate_small(x, None, loss)
    expected, slope = evaluate(x.double(), None, loss)
    torch.testing.assert_close(value, expected, rtol=2e-6, atol=1e-30)
    torch.testing.assert_close(gradient.double(), slope, rtol=1e-5, atol=1e-6)


def test_what_is_small():
    assert is_small(torch.zeros(100, 10))
    assert not is_small(torch.zeros(100, 10, dtype=torch.float64))
    assert not is_small(torch.zeros(100, 7))  # few classes are summed in float64
    assert not is_small(torch.zeros(small.MOST_ELEMENTS // 8 + 1, 8))
    with torch.inference_mode():
        assert not is_small(torch.zeros(100, 10))


def test_gradients_that_were_given_away_are_not_touched_by_the_next_call():
    loss = EvidentialLoss(annealing_epochs=0)
    first, targets = rows(20, 10, 1.0)
    first.requires_grad_(True)
    (gradient,) = torch.autograd.grad(loss(first, targets), first)
    kept = gradient.clone()
    second, others = rows(20, 10, 5.0, seed=1)
    second.requires_grad_(True)
    torch.autograd.grad(loss(second, others), second)
    assert torch.equal(gradient, kept)


@pytest.mark.parametrize("count", [20, 5000])  # small, and in blocks
def test_the_mean_at_once_is_the_mean_of_the_losses(count):
    x, targets = rows(count, 10, 2.0)
    x.requires_grad_(True)
    mean = EvidentialLoss(annealing_epochs=0)(x, targets)
    each = EvidentialLoss(annealing_epochs=0, reduction="none")(x, targets)
    torch.testing.assert_close(mean, each.mean())
    at_once = torch.autograd.grad(mean, x, retain_graph=True)[0]
    torch.testing.assert_close(at_once, torch.autograd.grad(each.mean(), x)[0])
    again = torch.autograd.grad(3 * mean, x)[0]  # a second pass, with another weight
    torch.testing.assert_close(again, 3 * at_once)


def test_second_derivatives_and_batches_of_backward_passes_of_the_mean():
    x, targets = rows(3, 8, 1.0)
    x = x.double().requires_grad_(True)
    loss = EvidentialLoss(annealing_epochs=0)
    assert torch.autograd.gradgradcheck(lambda z: loss(z, targets), x)
    mean = loss(x, targets)
    weights = torch.tensor([1.0, 2.0], dtype=torch.float64)
    batch = torch.autograd.grad(mean, x, weights, is_grads_batched=True)[0]
    torch.testing.assert_close(batch[1], 2 * batch[0])


# Numbers of classes that nothing was kept for yet.
@pytest.mark.parametrize(("dtype", "num_classes"), [(torch.float64, 61), (torch.bfloat16, 67)])
def test_the_default_type_and_device_of_others_change_nothing(dtype, num_classes):
    x, targets = rows(5, num_classes, 1.0)
    expected = EvidentialLoss()(x.double(), targets, epoch=10)
    torch.set_default_dtype(dtype)
    try:
        with torch.device("meta"):
            found = EvidentialLoss()(x, targets, epoch=10)
    finally:
        torch.set_default_dtype(torch.float32)
    torch.testing.assert_close(found.double(), expected, rtol=2e-6, atol=0)
    assert torch.equal(EvidentialLoss()(x, targets, epoch=10), found)
