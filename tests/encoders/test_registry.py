import json
from dataclasses import dataclass

import pytest

from nescio.encoders import (
    ENCODERS,
    Ability,
    InputKind,
    LeNetSpec,
    MLPSpec,
    encoders_for,
    make_encoder,
    register_encoder,
    spec_from_dict,
    spec_to_dict,
)
from nescio.encoders.registry import _check
from nescio.errors import InputError


def test_ours():
    assert list(ENCODERS)[:2] == ["lenet", "mlp"]
    assert ENCODERS.get("lenet") is LeNetSpec
    assert register_encoder(MLPSpec) is MLPSpec
    assert "lenet" in encoders_for(InputKind.IMAGES)
    assert "lenet" not in encoders_for(InputKind.ROWS)


def test_by_name_or_by_default():
    assert make_encoder(None, (1, 20, 20), 4) == LeNetSpec(1, 20, 20, 4)
    assert make_encoder("lenet", (1, 20, 20), 4, hidden=7) == LeNetSpec(1, 20, 20, 4, hidden=7)
    assert make_encoder(None, (5,), 4) == make_encoder("mlp", (5,), 4) == MLPSpec(5, 4)
    assert make_encoder(None, (5,), 4, kind=InputKind.ROWS) == MLPSpec(5, 4)


@pytest.mark.parametrize("spec", [LeNetSpec(num_classes=4, padding="same"), MLPSpec(3, 2, hidden=(8,))])
def test_there_and_back_through_json(spec):
    assert spec_from_dict(json.loads(json.dumps(spec_to_dict(spec)))) == spec


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: spec_from_dict({"kind": "vgg"}), "encoder must be one of lenet, mlp.*, got 'vgg'"),
        (lambda: spec_from_dict({"kind": ["mlp"]}), "encoder must be one of lenet, mlp.*, got"),
        (lambda: spec_from_dict({}), "encoder must be one of lenet, mlp.*, got None"),
        (
            lambda: spec_from_dict({"kind": "mlp", "depth": 3}),
            "the encoder mlp has no setting 'depth'; it has",
        ),
        (lambda: spec_from_dict({"kind": "mlp"}), "settings do not fit the encoder mlp: .*in_features"),
        (lambda: make_encoder("vgg", (3,), 2), "encoder must be one of"),
        (
            lambda: make_encoder("mlp", (9,), 2, kind=InputKind.TEXTS),
            r"takes rows, got texts of shape \(9,\)",
        ),
        (lambda: make_encoder(None, None, 2), "kind or input_shape must say what the inputs are"),
        (lambda: make_encoder("mlp", None, 2), "mlp has no default shape: input_shape must be that of"),
        (lambda: make_encoder("mlp", (1, 20, 20), 2), "takes rows, got images .* for these there are: lenet"),
    ],
)
def test_what_does_not_fit(make, reason):
    with pytest.raises(InputError, match=reason):
        make()


@dataclass(frozen=True)
class NoDropout(MLPSpec):
    kind = "no-dropout"


class NoDataclass(MLPSpec):
    kind = "mlp"


class Featureless(LeNetSpec):
    num_features = LeNetSpec.__mro__[1].num_features


class Promising(MLPSpec):
    abilities = frozenset(Ability)


@pytest.mark.parametrize(
    ("name", "spec", "reason"),
    [
        ("mlp", MLPSpec(3, 2), "must be a subclass of EncoderSpec, got MLPSpec"),
        ("list", list, "must be a subclass of EncoderSpec, got <class 'list'>"),
        ("other", MLPSpec, "MLPSpec calls itself 'mlp', but is registered as 'other'"),
        ("mlp", Promising, "declares Ability.PRETRAINED, but does not define pretrained_weights"),
        ("lenet", Featureless, "declares Ability.FEATURES, but does not define num_features"),
    ],
)
def test_what_is_no_encoder(name, spec, reason):
    with pytest.raises(InputError, match=reason):
        _check(name, spec)


def test_declared_dropout_must_be_a_field():
    @dataclass(frozen=True)
    class Bare(MLPSpec.__mro__[1]):
        kind = "bare"
        about = "nothing"
        inputs = InputKind.ROWS
        abilities = frozenset({Ability.DROPOUT})
        num_classes: int
        input_shape = (3,)

        @classmethod
        def fields_for(cls, input_shape, num_classes):
            return {"num_classes": num_classes}

        def build(self, layers=None):
            raise NotImplementedError

    with pytest.raises(InputError, match=r"Bare declares Ability.DROPOUT, but has no field dropout"):
        register_encoder(Bare)
    assert "bare" not in ENCODERS


def test_the_shape_of_an_input_must_be_there():
    @dataclass(frozen=True)
    class Shapeless(MLPSpec.__mro__[1]):
        kind = "shapeless"
        about = "nothing"
        inputs = InputKind.ROWS
        abilities = frozenset()
        num_classes: int

        @classmethod
        def fields_for(cls, input_shape, num_classes):
            return {"num_classes": num_classes}

        def build(self, layers=None):
            raise NotImplementedError

    with pytest.raises(InputError, match="Shapeless must have input_shape, as a field or as a property"):
        register_encoder(Shapeless)


def test_a_name_that_is_taken():
    @dataclass(frozen=True)
    class Second(MLPSpec):
        kind = "mlp"

    with pytest.raises(InputError, match="there is another encoder called 'mlp' already"):
        register_encoder(Second)
