import math

import pytest
import torch
from tests.inference.pretrained import TinySpec
from tests.studies.small import one

from nescio.data import Table, load
from nescio.encoders import spec_to_dict
from nescio.errors import InputError
from nescio.methods import EDL
from nescio.studies.plan import DataPart, TrainingPlan, as_plain, digest_of


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


def test_samples_for_calibration_are_trained_on_by_nobody(plan):
    aside = changed(plan, calibration=50)
    train, held_out = aside.load_data()
    calibration = aside.load_calibration()
    assert (len(held_out), len(calibration)) == (100, 50)
    assert len(train) == len(load(plan.data)) - 150
    assert torch.equal(held_out.images, plan.load_data()[1].images)
    sums = [each.images.flatten(1).double().sum(1) for each in (train, held_out, calibration)]
    whole = load(plan.data).images.flatten(1).double().sum(1)
    assert torch.equal(torch.cat(sums).sort().values, whole.sort().values)
    alone = changed(plan, held_out=0, calibration=50)
    assert alone.load_data()[1] is None
    with pytest.raises(InputError, match="calibration must be above 0"):
        plan.load_calibration()


def test_what_a_plan_does_not_have_is_no_part_of_its_description(plan):
    """So that results that were made before plans could have it stay where they are."""
    assert set(plan.description()) == {"data", "held_out", "method", "encoder", "training"}
    more = changed(plan, classes=("1", "2"), features=spec_to_dict(TinySpec(32, 2)), calibration=5)
    assert set(more.description()) - set(plan.description()) == {"classes", "features", "calibration"}


def test_some_classes_as_features(plan, monkeypatch, tmp_path):
    monkeypatch.setenv("NESCIO_CACHE", str(tmp_path))
    part = DataPart("digits", ("3", "5"), spec_to_dict(TinySpec(32, 2)))
    features = part.load("test")
    images = load("digits", "test").only(["3", "5"])
    assert features.classes == ("3", "5")
    assert torch.equal(features.labels, images.labels)
    assert features.inputs.shape == (len(images), TinySpec(32, 2).num_features)
    assert changed(plan, classes=("3", "5"), features=part.features).part == part


def test_rows_have_no_features(monkeypatch):
    rows = Table(torch.eye(2), torch.tensor([0, 1]), ("a", "b"), "two rows")
    monkeypatch.setattr("nescio.studies.plan.load", lambda name, split: rows)
    with pytest.raises(InputError, match="features are for images and texts, letter holds rows"):
        DataPart("letter", features=spec_to_dict(TinySpec(32, 2))).load("train")
