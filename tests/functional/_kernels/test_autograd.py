"""What torch does with the losses: graphs used twice, changed gradients, transforms, tracing."""

import pytest
import torch

import nescio as ev
from nescio.functional._kernels import autograd


def batch(n=6, classes=10, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, classes, generator=generator), torch.randint(classes, (n,), generator=generator)


@pytest.fixture
def loss():
    return ev.EvidentialLoss(annealing_epochs=0)


def expected_gradient(loss, logits, targets):
    z = logits.clone().requires_grad_()
    return torch.autograd.grad(loss(z, targets), z)[0]


def test_a_gradient_belongs_to_who_got_it(loss):
    logits, targets = batch()
    expected = expected_gradient(loss, logits, targets)
    z = logits.clone().requires_grad_()
    value = loss(z, targets)
    first = torch.autograd.grad(value, z, retain_graph=True)[0]
    second = torch.autograd.grad(value, z, retain_graph=True)[0]
    first.zero_()
    torch.testing.assert_close(second, expected)
    second.mul_(7)
    torch.testing.assert_close(torch.autograd.grad(value, z)[0], expected)


def test_hooks_may_change_the_gradient(loss):
    logits, targets = batch()
    expected = expected_gradient(loss, logits, targets)
    z = logits.clone().requires_grad_()
    z.register_hook(lambda gradient: gradient.mul_(2))
    value = loss(z, targets)
    value.backward(retain_graph=True)
    value.backward()
    torch.testing.assert_close(z.grad, 4 * expected)


def test_two_consumers_and_a_sum_of_losses(loss):
    logits, targets = batch()
    expected = expected_gradient(loss, logits, targets)
    z = logits.clone().requires_grad_()
    (loss(z, targets) + 3 * loss(z, targets) + z.sum()).backward()
    torch.testing.assert_close(z.grad, 4 * expected + 1)


def test_a_look_in_inference_mode_does_not_disturb_training(loss):
    logits, targets = batch(64, 17)
    with torch.inference_mode():
        before = loss(logits, targets).item()
        ev.Opinion.from_logits(logits).differential_entropy()
    z = logits.clone().requires_grad_()
    value = loss(z, targets)
    expected = torch.autograd.grad(value, z)[0]
    assert value.item() == pytest.approx(before)
    assert expected.isfinite().all()


class Entropy(torch.nn.Module):
    def forward(self, logits):
        opinion = ev.Opinion.from_logits(logits)
        return (
            opinion.probabilities,
            opinion.uncertainty,
            opinion.differential_entropy(),
            opinion.dissonance(),
        )


@pytest.mark.filterwarnings("ignore")
def test_an_export_leaves_the_loss_as_it_was(loss):
    logits, targets = batch(8, 19)
    before = loss(logits, targets)
    shapes = ({0: torch.export.Dim("batch")},)
    program = torch.export.export(Entropy(), (batch(4, 23)[0],), dynamic_shapes=shapes, strict=False)
    assert loss(logits, targets) == before
    other, labels = batch(5, 23)
    assert loss(other, labels).isfinite()
    for got, expected in zip(program.module()(other), Entropy()(other), strict=True):
        torch.testing.assert_close(got, expected)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_second_derivatives_in_every_way(loss):
    logits, targets = batch(2, 4)
    logits = logits.double()

    def of(z):
        return loss(z, targets)

    expected = torch.autograd.functional.hessian(of, logits)
    by_func = torch.func.jacrev(torch.func.jacrev(of))(logits)
    torch.testing.assert_close(by_func, expected)
    torch.testing.assert_close(torch.autograd.functional.hessian(of, logits, vectorize=True), expected)
    stacked = torch.stack([logits, logits + 1])
    torch.testing.assert_close(torch.vmap(torch.func.jacrev(torch.func.grad(of)))(stacked)[0], expected)


def test_a_batch_of_backward_passes(loss):
    logits, targets = batch(3, 4)
    z = logits.clone().requires_grad_()
    weights = torch.tensor([1.0, 2.0])
    gradients = torch.autograd.grad(loss(z, targets), z, weights, is_grads_batched=True)[0]
    expected = expected_gradient(loss, logits, targets)
    torch.testing.assert_close(gradients, torch.stack([expected, 2 * expected]))


def test_a_scale_is_looked_at_where_that_costs_nothing():
    """On other devices it would make the program wait."""
    assert autograd._is_number(torch.tensor(0.25), 0.25)
    assert not autograd._is_number(torch.tensor(0.5), 0.25)
    assert not autograd._is_number(torch.ones((), device="meta"), 1.0)
