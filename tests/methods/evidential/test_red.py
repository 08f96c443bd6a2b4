import json

import pytest
import torch

import nescio as ev
from nescio.encoders import MLPSpec
from nescio.losses import REDLoss
from nescio.methods import EDL, RED, Batch, method_from_dict, method_to_dict


@pytest.fixture
def batch():
    return Batch(torch.randn(8, 5, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 3)


@pytest.fixture
def module():
    torch.manual_seed(1)
    return MLPSpec(5, 3).build()


@pytest.mark.parametrize("evidence", ["exp", "relu", "softplus"])
def test_the_objective_is_that_of_edl_and_the_reward(module, batch, evidence):
    method = RED(risk="squared_error", evidence=evidence)
    value, logits = method.objective(module, batch, epoch=4.0, num_train=100)
    edl = EDL(risk="squared_error", evidence=evidence, divergence_weight=1.0, annealing_epochs=10)
    plain, _ = edl.objective(module, batch, epoch=4.0, num_train=100)
    uncertainty = edl.interpret(logits).uncertainty
    own = logits[torch.arange(8), batch.labels]
    torch.testing.assert_close(value, plain - (uncertainty * own).mean())


def test_a_network_that_gives_no_evidence_still_learns(module, batch):
    """All outputs below zero: with relu EDL has no gradient at all, RED has."""
    torch.nn.init.constant_(module[-1].bias, -100.0)
    for method, learns in ((EDL(evidence="relu"), False), (RED(evidence="relu"), True)):
        module.zero_grad()
        method.objective(module, batch, epoch=10.0, num_train=100)[0].backward()
        assert bool(module[-1].bias.grad.abs().max() > 0) == learns


def test_predictions_are_those_of_edl():
    logits = torch.tensor([[2.0, -1.0, 0.5]])
    found, expected = RED().interpret(logits), EDL(evidence="exp").interpret(logits)
    assert found.evidence.tolist() == expected.evidence.tolist()
    assert found.prior == expected.prior == 1.0


def test_the_published_settings_are_the_defaults():
    assert isinstance(RED().loss_for(10), REDLoss)
    method = RED()
    assert (method.risk, method.evidence, method.divergence_weight, method.annealing_epochs) == (
        "type2",
        "exp",
        1.0,
        10,
    )
    assert method_from_dict(json.loads(json.dumps(method_to_dict(RED(evidence="relu"))))) == RED(
        evidence="relu"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"risk": "mse"}, "risk must be one of"),
        ({"evidence": "tanh"}, "evidence must be one of"),
        ({"divergence_weight": "much"}, "divergence_weight must be a number from 0 on or 'auto'"),
        ({"annealing_epochs": -1}, "annealing_epochs must be a number from 0 on"),
        ({"weight_decay": -1}, "weight_decay must be a number from 0 on"),
    ],
)
def test_bad_settings_show_at_once(settings, message):
    with pytest.raises(ev.InputError, match=message):
        RED(**settings)
