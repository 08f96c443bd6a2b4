import pytest
import torch
from torch import nn

from nescio.encoders import Ability, InputKind, Layers, MLPSpec
from nescio.errors import InputError


def test_mlp():
    spec = MLPSpec(7, 3, hidden=(5, 4), dropout=0.1)
    parameters = sum(parameter.numel() for parameter in spec.build().parameters())
    assert parameters == 7 * 5 + 5 + 5 * 4 + 4 + 4 * 3 + 3
    assert spec.build()(torch.zeros(2, 7)).shape == (2, 3)
    assert spec.input_shape == (7,)


def test_a_spec_can_be_built_from_other_layers():
    made = []

    def linear(*sizes):
        made.append(sizes)
        return nn.Linear(*sizes)

    MLPSpec(4, 2, hidden=(3,)).build(Layers(linear=linear))
    assert made == [(4, 3), (3, 2)]


def test_what_it_says_of_itself():
    assert (MLPSpec.kind, MLPSpec.inputs) == ("mlp", InputKind.ROWS)
    assert MLPSpec.abilities == set(Ability) - {Ability.PRETRAINED}
    assert MLPSpec.for_inputs((6,), 3, dropout=0.2) == MLPSpec(6, 3, dropout=0.2)


@pytest.mark.parametrize(("hidden", "num_features"), [((8, 5), 5), ((), 4)])
def test_features_and_head(hidden, num_features):
    torch.manual_seed(0)
    spec = MLPSpec(4, 3, hidden)
    network, rows = spec.build().eval(), torch.randn(6, 4)
    assert network.features(rows).shape == (6, spec.num_features) == (6, num_features)
    assert torch.equal(network.head(network.features(rows)), network(rows))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: MLPSpec(3, 2, hidden=(8, -1)), "hidden must be a whole number from 1 on, got -1"),
        (lambda: MLPSpec(3, 2, hidden="64"), "hidden must be a list of whole numbers, got '64'"),
        (lambda: MLPSpec(0, 2), "in_features must be a whole number from 1 on"),
        (lambda: MLPSpec(3, 2, dropout="0.1"), "dropout must be .* got '0.1'"),
        (lambda: MLPSpec(3, 2, dropout=-0.1), "dropout must be"),
    ],
)
def test_what_does_not_fit(make, reason):
    with pytest.raises(InputError, match=reason):
        make()
