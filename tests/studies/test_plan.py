import math

import pytest
import torch
from tests.studies.small import one

from nescio.data import load
from nescio.errors import InputError
from nescio.methods import EDL
from nescio.studies.plan import TrainingPlan, as_plain, digest_of


@pytest.fixture
def plan():
    return one("edl").plan


def changed(plan, **changes):
    return TrainingPlan(**{**vars(plan), **changes})


def test_the_digest_tells_every_setting(plan):
    others = [
        changed(plan, data="mnist"),
        changed(plan, held_out=99),
        changed(plan, method={**plan.method, "evidence": "relu"}),
        changed(plan, encoder={**plan.encoder, "hidden": 17}),
        changed(plan, training={**plan.training, "seed": 1}),
    ]
    digests = {each.digest for each in [plan, *others]}
    assert len(digests) == 6


def test_the_digest_is_the_same_in_every_run():
    """What is committed is filed under it: a change of how it is made loses all results."""
    settings = {"b": (1, 2.0), "a": {"x": None, "y": True, "z": 0.005}}
    assert digest_of(settings) == "9851fab618c5a6121560"


def test_neither_order_nor_kind_of_number_matters():
    assert digest_of({"a": 10, "b": (0.5, 1)}) == digest_of({"b": [0.5, 1.0], "a": 10.0})
    assert digest_of({"a": True}) != digest_of({"a": 1})


def test_later_settings_are_used_and_no_part_of_the_description(plan):
    method = {name: value for name, value in plan.method.items() if name != "output_bias"}
    later = changed(plan, method=method, later={"method": {"output_bias": 2.5}, "training": {"flip": True}})
    assert later.build_method().output_bias == 2.5
    assert later.settings().flip is False  # what the plan says itself has the last word
    assert "output_bias" not in later.description()["method"]
    assert later.digest == changed(plan, method=method).digest


def test_what_is_built(plan):
    assert isinstance(plan.build_method(), EDL)
    assert plan.build_encoder().hidden == 16
    assert plan.settings().seed == plan.seed == 0


@pytest.mark.parametrize(
    ("changes", "build", "message"),
    [
        (
            {"method": {"name": "edl", "evidnce": "relu"}},
            "build_method",
            "the method edl has no setting 'evidnce'",
        ),
        (
            {"encoder": {"kind": "lenet", "filter": 3}},
            "build_encoder",
            "the encoder lenet has no setting 'filter'",
        ),
        ({"training": {"epoch": 3, "seed": 0}}, "settings", "settings do not fit TrainingSettings"),
    ],
)
def test_a_setting_that_does_not_exist(plan, changes, build, message):
    with pytest.raises(InputError, match=message):
        getattr(changed(plan, **changes), build)()


def test_images_kept_apart_are_the_same_for_every_plan_and_not_trained_on(plan):
    whole = load("digits")
    train, held_out = plan.load_data()
    again, apart = changed(plan, training={**plan.training, "seed": 7}).load_data()
    assert (len(train), len(held_out)) == (len(whole) - 100, 100)
    assert torch.equal(held_out.images, apart.images)
    assert torch.equal(train.labels, again.labels)
    together = torch.cat([train.images, held_out.images]).flatten(1).double().sum(1).sort().values
    assert torch.equal(together, whole.images.flatten(1).double().sum(1).sort().values)
    assert len(held_out.labels.unique()) > 5


def test_without_images_kept_apart(plan):
    train, held_out = changed(plan, held_out=0).load_data()
    assert held_out is None
    assert len(train) == len(load("digits"))


def test_as_plain():
    given = {"a": math.inf, 1: (2.0, True, None), "t": torch.tensor([[0.5], [math.nan]])}
    assert as_plain(given) == {"a": None, "1": [2.0, True, None], "t": [[0.5], [None]]}
