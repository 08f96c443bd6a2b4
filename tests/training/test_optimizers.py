"""Optimisers by name, groups of parameters, and the learning rate over the epochs."""

import pytest
import torch
from torch import nn

import nescio as ev
from nescio.encoders import MLPSpec
from nescio.training import TrainingSettings
from nescio.training._optimizers import (
    drop_gradients_below_head,
    keep_statistics_below_head,
    learning_rate_at,
    make_optimizer,
    set_learning_rate,
)


def settings(**given):
    return TrainingSettings(**{"epochs": 10, "learning_rate": 0.1, **given}).resolved(100)


def test_the_learning_rate_falls_like_a_cosine_or_stays():
    assert [round(learning_rate_at(e, 0.1, settings()), 6) for e in (0, 5, 10)] == [0.1, 0.05, 0.0]
    assert learning_rate_at(7, 0.1, settings(schedule="constant")) == 0.1


@pytest.mark.parametrize("schedule", ["cosine", "constant"])
def test_in_the_warm_up_the_learning_rate_grows_and_then_follows_its_schedule(schedule):
    warm = settings(warmup=0.2, schedule=schedule)
    growing = [learning_rate_at(epoch / 10, 0.1, warm) for epoch in range(20)]
    assert growing == pytest.approx([0.1 * (epoch + 1) / 20 for epoch in range(20)])
    at_the_end = {"cosine": [0.1, 0.05, 0.0], "constant": [0.1, 0.1, 0.1]}
    assert [learning_rate_at(e, 0.1, warm) for e in (2, 6, 10)] == pytest.approx(at_the_end[schedule])


@pytest.mark.parametrize(("name", "kind"), [("adam", "Adam"), ("AdamW", "AdamW"), ("RMSprop", "RMSprop")])
def test_an_optimiser_by_its_name(name, kind):
    optimizer = make_optimizer(MLPSpec(5, 3).build(), settings(optimizer=name, weight_decay=0.3))
    assert type(optimizer) is getattr(torch.optim, kind)
    assert optimizer.param_groups[0]["weight_decay"] == 0.3


def test_no_weight_decay_is_none_also_where_torch_has_another_default():
    optimizer = make_optimizer(MLPSpec(5, 3).build(), settings(optimizer="adamw", weight_decay=0.0))
    assert optimizer.param_groups[0]["weight_decay"] == 0
    assert torch.optim.AdamW([torch.zeros(1)]).defaults["weight_decay"] == 0.01


def test_sgd_has_momentum():
    optimizer = make_optimizer(MLPSpec(5, 3).build(), settings(optimizer="sgd"))
    assert optimizer.param_groups[0]["momentum"] == 0.9


def test_optimisers_that_can_not_be():
    with pytest.raises(ev.InputError, match=r"optimizer must be one of adadelta, .*, got 'adamm'"):
        TrainingSettings(optimizer="adamm")
    with pytest.raises(ev.InputError, match="optimizer must be one of"):
        TrainingSettings(optimizer="lbfgs")
    with pytest.raises(ev.InputError, match="optimizer rprop takes no weight_decay"):
        TrainingSettings(optimizer="rprop", weight_decay=0.1)
    assert TrainingSettings(optimizer="rprop").resolved(10, fine_tuned=True).weight_decay == 0
    with pytest.raises(ev.InputError, match="optimizer muon can't train this network"):
        make_optimizer(MLPSpec(5, 3).build(), settings(optimizer="muon"))


def test_the_encoder_learns_at_a_rate_of_its_own():
    module = MLPSpec(5, 3, hidden=(8,)).build()
    chosen = settings(encoder_rate=0.01)
    optimizer = make_optimizer(module, chosen)
    set_learning_rate(optimizer.param_groups, 0.0, 0.1, chosen)
    below, head = optimizer.param_groups
    assert (below["lr"], head["lr"]) == (pytest.approx(0.001), 0.1)
    assert {id(p) for p in head["params"]} == {id(p) for p in module.head.parameters()}
    assert len(below["params"]) + len(head["params"]) == len(list(module.parameters()))


def test_without_gradients_below_the_head_only_the_head_changes():
    module = MLPSpec(5, 3, hidden=(8,)).build()
    optimizer = make_optimizer(module, settings(freeze_epochs=1))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    torch.autograd.backward(module(torch.ones(2, 5)).sum())
    drop_gradients_below_head(optimizer.param_groups)
    optimizer.step()
    changed = {name for name, value in module.state_dict().items() if not torch.equal(value, before[name])}
    head = [
        name for name, value in module.named_parameters() if any(value is p for p in module.head.parameters())
    ]
    assert changed == set(head)


def test_batch_normalisations_below_the_head_keep_their_statistics():
    module = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(), nn.Linear(3, 2))
    module.head = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2))
    module.train()
    keep_statistics_below_head(module)
    assert [each.training for each in (module[0], module[1], module.head[0])] == [False, True, True]


def test_a_network_without_a_head_has_one_rate():
    with pytest.raises(ev.InputError, match="need a network with a head, and Linear has none"):
        make_optimizer(nn.Linear(5, 3), settings(encoder_rate=0.1))
