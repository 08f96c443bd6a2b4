import json
from dataclasses import dataclass

import pytest

import nescio as ev
from nescio.methods import (
    EDL,
    METHODS,
    OURS,
    Ensemble,
    Method,
    Softmax,
    make_method,
    method_from_dict,
    method_to_dict,
    register_method,
)
from nescio.methods._shared import softmax_loss


@pytest.mark.parametrize("method", [Softmax(weight_decay=0.5), EDL(risk="type2", divergence_weight=0.2)])
def test_there_and_back_through_json(method):
    assert method_from_dict(json.loads(json.dumps(method_to_dict(method)))) == method


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"name": "magic"}, "method must be one of softmax, .*, got 'magic'"),
        ({}, "method must be one of softmax, "),
        ({"name": "l2", "depth": 3}, "the method softmax has no setting 'depth'; it has weight_decay"),
        ({"name": "edl", "evidence": "tanh"}, "evidence must be one of"),
        ({"name": "edl", "output_bias": float("nan")}, "output_bias must be a finite number"),
        ({"name": "l2", "weight_decay": -1.0}, "weight_decay must be a number from 0 on, got -1.0"),
        ({"name": "edl", "weight_decay": float("nan")}, "weight_decay must be a number from 0 on, got nan"),
        ({"name": "dropout", "samples": 0}, "samples must be a whole number from 1 to 10000, got 0"),
        ({"name": "ensemble", "size": 0}, "num_members must be a whole number from 1 to 1000, got 0"),
        ({"name": "ensemble", "epsilon": 1.5}, "epsilon must be from 0 to 1"),
    ],
)
def test_what_does_not_fit(data, reason):
    with pytest.raises(ev.InputError, match=reason):
        method_from_dict(data)


def test_a_method_that_is_no_dataclass_is_refused_in_words():
    class Bare(Softmax):
        name = "bare"

    class Undecorated(Method):
        name, about, paper = "undecorated", "no dataclass", ""

        def objective(self, module, batch, epoch, num_train):
            raise NotImplementedError

    assert method_to_dict(Bare())["name"] == "bare"
    with pytest.raises(ev.InputError, match="the method Undecorated must be a dataclass"):
        method_to_dict(Undecorated())


def test_ours_come_first_and_say_where_they_are_from():
    assert [METHODS.get(name) for name in METHODS][: len(OURS)] == list(OURS)
    assert all(method.paper for method in OURS)


def test_names_and_settings_of_before():
    assert make_method("l2", weight_decay=0.1) == Softmax(0.1)
    assert method_from_dict({"name": "l2", "weight_decay": 0.1}) == Softmax(0.1)
    assert method_from_dict({"name": "ensemble", "size": 3, "epsilon": 0.02}) == Ensemble(3, 0.02)
    assert method_to_dict(Softmax())["name"] == "softmax"
    assert "l2" not in list(METHODS)


@dataclass(frozen=True)
class Other(Softmax):
    name = "other"


class NoDataclass(Method):
    name = "no-dataclass"
    about = "settings that a file could not hold"

    def objective(self, module, batch, epoch, num_train):
        return softmax_loss(module, batch)


@dataclass(frozen=True)
class Second(Softmax):
    name = "softmax"


@pytest.mark.parametrize(
    ("register", "reason"),
    [
        (lambda: register_method(NoDataclass), "NoDataclass must be a dataclass: put @dataclass"),
        (lambda: register_method(int), "must be a subclass of Method, got <class 'int'>"),
        (lambda: register_method(Second), "there is another method called 'softmax' already"),
        (lambda: METHODS.register("another", Other), "Other calls itself 'other', but is registered as 'ano"),
        (
            lambda: METHODS.register("list", list),
            "the method 'list' must be a subclass of Method",
        ),
    ],
)
def test_what_is_no_method(register, reason):
    before = list(METHODS)
    with pytest.raises(ev.InputError, match=reason):
        register()
    assert list(METHODS) == before


def test_a_registered_method_is_found(monkeypatch):
    monkeypatch.setattr(METHODS, "_items", dict(METHODS._items))
    assert register_method(Other) is Other
    assert make_method("other", weight_decay=0.5) == Other(0.5)
