import json

import pytest
import torch
from tests import references as ref
from torch.autograd import gradcheck

import nescio as ev
from nescio.encoders import MLPSpec
from nescio.methods import REDL, Batch, method_from_dict, method_to_dict


def formula(logits, label, prior, weight):
    """sum_j (y_j - p_j)^2 + weight * KL[D(e (1 - y) + prior) || D(prior)], e = log(1 + exp z)."""
    evidence = ref.exact_softplus(logits)
    misleading = [0 if k == label else e for k, e in enumerate(evidence)]
    risk = ref.exact_risk_with_prior("brier", evidence, label, prior)
    return float(risk) + weight * float(ref.exact_divergence_from(misleading, prior))


@pytest.mark.parametrize("prior", [0.1, 0.8, 1.0])
def test_the_objective_is_the_published_formula(prior):
    torch.manual_seed(1)
    module = MLPSpec(5, 3).build().double()
    batch = Batch(torch.randn(4, 5, dtype=torch.float64), torch.arange(4) % 3)
    value, logits = REDL(prior=prior).objective(module, batch, epoch=4.0, num_train=100)
    each = [formula(z, y, prior, 0.4) for z, y in zip(logits.tolist(), batch.labels.tolist(), strict=True)]
    assert value.item() == pytest.approx(sum(each) / 4, rel=1e-9)


@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_logits_keep_their_digits(scale, dtype):
    generator = torch.Generator().manual_seed(0)
    logits = (torch.rand(8, 5, generator=generator, dtype=torch.float64) * 2 - 1) * scale
    logits = logits.to(dtype).requires_grad_()
    targets = torch.arange(8) % 5
    values = REDL().loss_for(5, "none")(logits, targets, epoch=10)
    (gradient,) = torch.autograd.grad(values.sum(), logits)
    assert bool((values >= 0).all())
    assert bool(gradient.isfinite().all())
    expected = [formula(z, y, 0.1, 1.0) for z, y in zip(logits.tolist(), targets.tolist(), strict=True)]
    limit = 2e-6 if dtype == torch.float32 else 1e-8
    assert values.tolist() == pytest.approx(expected, rel=limit)


def test_the_gradient_is_that_of_the_loss():
    logits = torch.tensor([[0.5, -1.0, 3.0], [-6.0, -7.0, -8.0]], dtype=torch.float64, requires_grad=True)
    loss = REDL().loss_for(3, "none")
    assert gradcheck(lambda z: loss(z, torch.tensor([1, 0]), epoch=10), logits)
    soft = torch.tensor([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]], dtype=torch.float64)
    assert gradcheck(lambda z: loss(z, soft, epoch=10), logits)


def test_uncertainty_is_the_share_of_the_prior():
    logits = torch.tensor([[4.0, -2.0, -2.0]])
    opinion = REDL(prior=0.1).interpret(logits)
    evidence = logits.exp().log1p()
    torch.testing.assert_close(opinion.uncertainty, 0.3 / (evidence.sum(1) + 0.3))
    torch.testing.assert_close(opinion.probabilities, (evidence + 0.1) / (evidence.sum() + 0.3))
    torch.testing.assert_close(opinion.belief.sum(1) + opinion.uncertainty, torch.ones(1))


def test_the_published_settings_are_the_defaults():
    method = REDL()
    assert (method.prior, method.evidence) == (0.1, "softplus")
    assert (method.divergence_weight, method.annealing_epochs) == (1.0, 10)
    assert method_from_dict(json.loads(json.dumps(method_to_dict(REDL(prior=0.5))))) == REDL(prior=0.5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior": 0}, "prior must be a number from 1e-06 to"),
        ({"prior": "0.1"}, "prior must be a number from 1e-06 to"),
        ({"evidence": "tanh"}, "evidence must be one of"),
        ({"divergence_weight": -1.0}, "divergence_weight must be a number from 0 on"),
        ({"annealing_epochs": -1}, "annealing_epochs must be a number from 0 on"),
        ({"weight_decay": -1}, "weight_decay must be a number from 0 on"),
    ],
)
def test_bad_settings_show_at_once(settings, message):
    with pytest.raises(ev.InputError, match=message):
        REDL(**settings)
