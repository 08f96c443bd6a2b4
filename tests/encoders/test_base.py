from dataclasses import dataclass

import pytest
import torch
from torch import nn

from nescio.encoders import (
    Ability,
    EncoderSpec,
    EncoderWithHead,
    InputKind,
    LeNetSpec,
    MLPSpec,
    SequentialEncoder,
    features_of,
    input_kind,
    replace_head,
    require_features,
    with_features,
)
from nescio.errors import InputError


@dataclass(frozen=True)
class PlainSpec(EncoderSpec):
    """A linear classifier that declares nothing."""

    kind = "plain"
    about = "one dense layer"
    inputs = InputKind.ROWS
    abilities = frozenset()
    in_features: int
    num_classes: int

    @property
    def input_shape(self):
        return (self.in_features,)

    @classmethod
    def fields_for(cls, input_shape, num_classes):
        return {"in_features": input_shape[0], "num_classes": num_classes}

    def build(self, layers=None):
        return nn.Linear(self.in_features, self.num_classes)


def test_what_is_missing_is_said_when_the_class_is_defined():
    with pytest.raises(InputError, match=r"Half is no EncoderSpec yet: it must define inputs \(an Inp"):

        class Half(EncoderSpec):
            kind = "half"
            about = "not all of it"


def test_a_base_of_several_encoders_may_lack_what_they_have():
    class Base(EncoderSpec, abstract=True):
        inputs = InputKind.ROWS

    with pytest.raises(TypeError, match="abstract"):
        Base()


@pytest.mark.parametrize(
    ("spec", "shape", "reason"),
    [
        (MLPSpec, (1, 28, 28), r"the encoder mlp takes rows, got images of shape \(1, 28, 28\)"),
        (LeNetSpec, (7,), r"the encoder lenet takes images, got rows of shape \(7,\)"),
        (LeNetSpec, (28, 28), r"an input must be an image .* or a row .* got the shape \(28, 28\)"),
        (LeNetSpec, (1, 5, 28), "images of 5 x 28 are too small for LeNet"),
    ],
)
def test_inputs_that_an_encoder_does_not_take(spec, shape, reason):
    with pytest.raises(InputError, match=reason):
        spec.for_inputs(shape, 3)


def test_settings_that_an_encoder_does_not_have():
    with pytest.raises(InputError, match="the encoder mlp has no setting 'depth'; it has in_features"):
        MLPSpec.for_inputs((3,), 2, depth=4)


def test_dropout_is_set_where_it_is_declared():
    assert MLPSpec(3, 2).with_dropout(0.25) == MLPSpec(3, 2, dropout=0.25)
    assert LeNetSpec().without_dropout() == LeNetSpec(dropout=0.0)
    plain = PlainSpec(3, 2)
    assert plain.without_dropout() is plain
    with pytest.raises(InputError, match="the encoder plain has no dropout that could be set"):
        plain.with_dropout(0.5)


def test_an_encoder_without_features_says_so():
    with pytest.raises(InputError, match="the encoder plain has no features"):
        _ = PlainSpec(3, 2).num_features
    with pytest.raises(InputError, match=r"must have features.* got a Linear without them"):
        features_of(PlainSpec(3, 2).build(), torch.zeros(1, 3))


def test_kinds_of_inputs():
    assert input_kind((4,)) is InputKind.ROWS
    assert input_kind(torch.zeros(5, 3, 8, 9).shape[1:]) is InputKind.IMAGES


class Mapped(nn.Module):
    """Features as maps, which is not what a head of dense layers sees."""

    def __init__(self):
        super().__init__()
        self.features, self.head = nn.Conv2d(1, 2, 3), nn.Linear(2, 2)


def test_features_of_another_shape_are_refused():
    with pytest.raises(InputError, match=r"must give \(N, F\), got \(4, 2, 6, 6\)"):
        features_of(Mapped(), torch.zeros(4, 1, 8, 8))


def test_a_part_of_a_sequence_is_a_sequence():
    network = SequentialEncoder(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    require_features(network)
    inputs = torch.randn(5, 3)
    assert torch.equal(network[1:](network[:1](inputs)), network(inputs))


def test_every_ability_has_its_own_word():
    assert sorted(ability.value for ability in Ability) == ["dropout", "features", "layers", "pretrained"]


def test_what_only_pretrained_encoders_have():
    assert MLPSpec.default_shape is None
    assert MLPSpec(3, 2).normalization is None
    with pytest.raises(InputError, match="the encoder mlp has no pretrained weights"):
        MLPSpec(3, 2).pretrained_weights()
    with pytest.raises(InputError, match="the encoder lenet takes images, and has no tokenizer"):
        LeNetSpec().tokenizer_json()


@pytest.mark.parametrize(
    "network",
    [
        MLPSpec(4, 3, hidden=(8,)).build(),
        EncoderWithHead(nn.Linear(4, 8), nn.Linear(8, 3)),
        with_features(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), head="2"),
    ],
    ids=["sequential", "with head", "wrapped"],
)
def test_the_head_is_replaced_wherever_it_is(network):
    head = nn.Linear(8, 5)
    inputs = torch.zeros(2, 4)
    features = features_of(network.eval(), inputs)
    replace_head(network, head)
    assert network.head is head
    assert torch.equal(network(inputs), head(features))


def test_a_head_that_is_no_part_of_the_network_can_not_be_replaced():
    network = with_features(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), layer="1")
    with pytest.raises(InputError, match="is no part of it that could be replaced"):
        replace_head(network, nn.Linear(8, 5))
    with pytest.raises(InputError, match="without them"):
        replace_head(nn.Linear(4, 3), nn.Linear(8, 5))
