import json

import pytest
import torch
from tests import references as ref

import nescio as ev
from nescio.encoders import MLPSpec
from nescio.losses import IEDLLoss
from nescio.methods import EDL, IEDL, Batch, method_from_dict, method_to_dict


def formula(logits, label, fisher_weight, weight):
    """The printed loss of softplus evidence, each term exact."""
    evidence = ref.exact_softplus(logits)
    misleading = [0 if k == label else e for k, e in enumerate(evidence)]
    risk = float(ref.exact_fisher_risk(evidence, label, 1))
    determinant = float(ref.exact_fisher_log_determinant(evidence, 1))
    return risk - fisher_weight * determinant + weight * float(ref.exact_divergence_from(misleading, 1))


@pytest.mark.parametrize("fisher_weight", [0.005, 0.05])
def test_the_objective_is_the_published_formula(fisher_weight):
    torch.manual_seed(1)
    module = MLPSpec(5, 3).build().double()
    batch = Batch(torch.randn(4, 5, dtype=torch.float64), torch.arange(4) % 3)
    value, logits = IEDL(fisher_weight=fisher_weight).objective(module, batch, epoch=4.0, num_train=100)
    each = []
    for row, label in zip(logits.tolist(), batch.labels.tolist(), strict=True):
        each.append(formula(row, label, fisher_weight, 0.4))
    assert value.item() == pytest.approx(sum(each) / 4, rel=1e-9)


@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_logits_keep_their_digits(scale, dtype):
    generator = torch.Generator().manual_seed(0)
    logits = (torch.rand(6, 5, generator=generator, dtype=torch.float64) * 2 - 1) * scale
    logits = logits.to(dtype).requires_grad_()
    targets = torch.arange(6) % 5
    values = IEDL().loss_for(5, "none")(logits, targets, epoch=10)
    (gradient,) = torch.autograd.grad(values.sum(), logits)
    assert bool(gradient.isfinite().all())
    expected = []
    for row, label in zip(logits.tolist(), targets.tolist(), strict=True):
        expected.append(formula(row, label, 0.005, 1.0))
    limit = 3e-6 if dtype == torch.float32 else 1e-8
    assert values.tolist() == pytest.approx(expected, rel=limit)


def test_predictions_are_those_of_edl_with_softplus():
    logits = torch.tensor([[2.0, -1.0, 0.5]])
    found, expected = IEDL().interpret(logits), EDL(evidence="softplus").interpret(logits)
    assert found.uncertainty.tolist() == expected.uncertainty.tolist()


def test_the_published_settings_are_the_defaults():
    assert isinstance(IEDL().loss_for(10), IEDLLoss)
    method = IEDL()
    assert (method.fisher_weight, method.evidence) == (0.005, "softplus")
    assert (method.divergence_weight, method.annealing_epochs) == (1.0, 10)
    again = method_from_dict(json.loads(json.dumps(method_to_dict(IEDL(fisher_weight=0.05)))))
    assert again == IEDL(fisher_weight=0.05)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fisher_weight": -0.1}, "fisher_weight must be a number from 0 on"),
        ({"fisher_weight": "much"}, "fisher_weight must be a number from 0 on"),
        ({"evidence": "tanh"}, "evidence must be one of"),
        ({"divergence_weight": -1.0}, "divergence_weight must be a number from 0 on"),
        ({"weight_decay": True}, "weight_decay must be a number from 0 on"),
    ],
)
def test_bad_settings_show_at_once(settings, message):
    with pytest.raises(ev.InputError, match=message):
        IEDL(**settings)
