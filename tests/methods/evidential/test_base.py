from dataclasses import dataclass

import pytest
import torch

import nescio as ev
from nescio.encoders import MLPSpec
from nescio.methods import Batch
from nescio.methods._shared import weight_penalty
from nescio.methods.evidential._base import EvidentialMethod


@dataclass(frozen=True)
class Tenth(EvidentialMethod):
    name = "tenth"
    about = "softplus evidence beside a prior of a tenth"
    weight_decay: float = 0.0
    prior: float = 0.1

    def _make_loss(self, num_classes, reduction):
        return ev.EvidentialLoss(num_classes, evidence="softplus", prior=self.prior, reduction=reduction)


@pytest.fixture
def module():
    torch.manual_seed(1)
    return MLPSpec(5, 3).build()


@pytest.fixture
def batch():
    return Batch(torch.randn(6, 5, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3)


def test_the_objective_is_the_loss_and_the_penalty(module, batch):
    value, logits = Tenth(weight_decay=0.1).objective(module, batch, epoch=4.0, num_train=100)
    loss = ev.EvidentialLoss(evidence="softplus", prior=0.1)
    torch.testing.assert_close(
        value, loss(logits, batch.labels, epoch=4.0) + weight_penalty(module, 0.1), rtol=1e-6, atol=0
    )


def test_weights_of_samples_make_a_weighted_mean(module, batch):
    weights = torch.tensor([1.0, 0.0, 2.0, 0.0, 1.0, 0.0])
    value, logits = Tenth().objective(module, batch._replace(weights=weights), epoch=3.0, num_train=6)
    loss = ev.EvidentialLoss(evidence="softplus", prior=0.1, reduction="none")
    each = loss(logits, batch.labels, epoch=3.0)
    torch.testing.assert_close(value, (each * weights).sum() / weights.sum())


def test_a_soft_label_of_one_class_is_that_class(module, batch):
    soft = torch.nn.functional.one_hot(batch.labels, 3).float()
    hard, _ = Tenth().objective(module, batch, epoch=3.0, num_train=6)
    value, _ = Tenth().objective(module, batch._replace(labels=soft), epoch=3.0, num_train=6)
    torch.testing.assert_close(value, hard)


def test_the_opinion_has_the_evidence_and_the_prior_of_the_loss():
    opinion = Tenth(prior=0.25).interpret(torch.tensor([[2.0, -1.0], [0.0, -3.0]]))
    assert opinion.prior == 0.25
    evidence = torch.tensor([[2.0, -1.0], [0.0, -3.0]]).exp().log1p()
    torch.testing.assert_close(opinion.evidence, evidence)
    torch.testing.assert_close(opinion.uncertainty, 0.5 / (evidence.sum(1) + 0.5))
    assert opinion.labels.tolist() == [0, 0]


def test_no_new_loss_for_every_batch():
    assert Tenth().loss_for(5) is Tenth().loss_for(5)
    assert Tenth().loss_for(5) is not Tenth(prior=1.0).loss_for(5)
    assert Tenth().loss_for(5, "none") is not Tenth().loss_for(5)


def test_bad_settings_show_at_once():
    with pytest.raises(ev.InputError, match="weight_decay must be a number from 0 on, got -1"):
        Tenth(weight_decay=-1)
    with pytest.raises(ev.InputError, match="prior must be a number from 1e-06 to"):
        Tenth(prior=0)


def test_evidence_is_named_as_a_model_file_holds_it():
    with pytest.raises(ev.InputError, match="evidence must be one of relu, softplus, exp, by its name, got"):
        ev.EDL(evidence=torch.relu)
