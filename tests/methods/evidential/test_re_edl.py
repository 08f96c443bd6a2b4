import pytest
import torch
from tests import references as ref
from torch.autograd import gradcheck

import nescio as ev
from nescio.encoders import MLPSpec
from nescio.methods import REDL, Batch, ReEDL


def formula(logits, label, prior):
    """sum_j (y_j - p_j)^2 of softplus evidence."""
    return float(ref.exact_risk_with_prior("brier", ref.exact_softplus(logits), label, prior))


@pytest.mark.parametrize("prior", [0.1, 0.8])
@pytest.mark.parametrize("epoch", [0.0, 20.0])
def test_the_objective_is_the_squared_error_alone_at_every_epoch(prior, epoch):
    torch.manual_seed(1)
    module = MLPSpec(5, 3).build().double()
    batch = Batch(torch.randn(4, 5, dtype=torch.float64), torch.arange(4) % 3)
    value, logits = ReEDL(prior=prior).objective(module, batch, epoch=epoch, num_train=100)
    each = [formula(z, y, prior) for z, y in zip(logits.tolist(), batch.labels.tolist(), strict=True)]
    assert value.item() == pytest.approx(sum(each) / 4, rel=1e-9)


@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_logits_keep_their_digits(scale, dtype):
    generator = torch.Generator().manual_seed(0)
    logits = (torch.rand(8, 5, generator=generator, dtype=torch.float64) * 2 - 1) * scale
    logits = logits.to(dtype).requires_grad_()
    targets = torch.arange(8) % 5
    values = ReEDL().loss_for(5, "none")(logits, targets)
    (gradient,) = torch.autograd.grad(values.sum(), logits)
    assert bool(((values >= 0) & (values <= 2)).all())
    assert bool(gradient.isfinite().all())
    expected = [formula(z, y, 0.1) for z, y in zip(logits.tolist(), targets.tolist(), strict=True)]
    limit = 2e-6 if dtype == torch.float32 else 1e-8
    assert values.tolist() == pytest.approx(expected, rel=limit)


def test_the_gradient_is_that_of_the_loss():
    logits = torch.tensor([[0.5, -1.0, 3.0], [-6.0, -7.0, -8.0]], dtype=torch.float64, requires_grad=True)
    loss = ReEDL().loss_for(3, "none")
    assert gradcheck(lambda z: loss(z, torch.tensor([1, 0])), logits)


def test_it_is_r_edl_without_its_divergence():
    logits = torch.tensor([[0.5, -1.0, 3.0], [-6.0, -7.0, -8.0]])
    targets = torch.tensor([1, 0])
    relaxed = REDL(divergence_weight=0.0).loss_for(3, "none")(logits, targets, epoch=10)
    torch.testing.assert_close(ReEDL().loss_for(3, "none")(logits, targets), relaxed)
    assert ReEDL().interpret(logits).uncertainty.tolist() == REDL().interpret(logits).uncertainty.tolist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior": -0.1}, "prior must be a number from 1e-06 to"),
        ({"evidence": "tanh"}, "evidence must be one of"),
        ({"weight_decay": True}, "weight_decay must be a number from 0 on"),
    ],
)
def test_bad_settings_show_at_once(settings, message):
    with pytest.raises(ev.InputError, match=message):
        ReEDL(**settings)
