"""What --method, --set and --encoder mean."""

import json

import pytest
import torch

from nescio.cli._choices import encoder_of, method_of, network_of
from nescio.data import Dataset, Table
from nescio.encoders import LeNetSpec, MLPSpec
from nescio.errors import InputError
from nescio.methods import EDL, Dropout, Ensemble, Softmax

IMAGES = Dataset(torch.zeros(3, 3, 32, 20, dtype=torch.uint8), torch.arange(3), ("a", "b", "c"), "images")
ROWS = Table(torch.zeros(2, 7), torch.arange(2), ("a", "b"), "rows")


def test_settings_of_a_method():
    assert method_of("edl", []) == EDL()
    given = ["evidence=relu", "divergence_weight=0.5", "annealing_epochs=3"]
    assert method_of("edl", given) == EDL(evidence="relu", divergence_weight=0.5, annealing_epochs=3)
    assert method_of("edl", ["divergence_weight=None"]) == EDL(divergence_weight=None)
    assert method_of("softmax", ["weight_decay=1e-4"]) == Softmax(weight_decay=1e-4)
    assert method_of("l2", ["weight_decay=1e-4"]) == Softmax(weight_decay=1e-4)


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("magic", [], "method must be one of .*edl.*, got 'magic'"),
        ("edl", ["evidence"], "--set takes name=value, got 'evidence'"),
        ("l2", ["evidence=relu"], "softmax has no setting 'evidence'; it has weight_decay"),
        ("edl", ["evidence=tanh"], "evidence must be one of relu, softplus, exp"),
        ("edl", ["annealing_epochs=many"], "--set annealing_epochs must be a number or none, got 'many'"),
        ("edl", ["annealing_epochs=-1"], "annealing_epochs must be a number from 0 on"),
        ("edl", ["risk=type2", "risk=type2"], "--set risk is given twice"),
    ],
)
def test_settings_that_do_not_fit(name, settings, reason):
    with pytest.raises(InputError, match=reason):
        method_of(name, settings)


def test_the_data_says_what_the_network_leaves_out(tmp_path):
    usual = LeNetSpec(3, 32, 20, 3)
    assert network_of(None, IMAGES, EDL()) == network_of("lenet", IMAGES, EDL()) == usual
    assert network_of(None, ROWS, EDL()) == network_of("mlp", ROWS, EDL()) == MLPSpec(7, 2)
    large = LeNetSpec(3, 32, 20, 3, filters=(192, 192), hidden=1000)
    fields = '{"kind": "lenet", "filters": [192, 192], "hidden": 1000}'
    assert network_of(fields, IMAGES, EDL()) == large
    (tmp_path / "n.json").write_text(fields)
    assert network_of(str(tmp_path / "n.json"), IMAGES, EDL()) == large
    assert network_of('{"hidden": [5], "dropout": 0.2}', ROWS, EDL()) == MLPSpec(7, 2, (5,), 0.2)


def test_the_name_of_an_encoder_and_its_fields():
    assert encoder_of(None) == (None, {})
    assert encoder_of("minilm") == encoder_of('{"kind": "minilm"}') == ("minilm", {})
    assert encoder_of('{"kind": "lenet", "hidden": 7}') == ("lenet", {"hidden": 7})
    assert encoder_of('{"hidden": 7}') == (None, {"hidden": 7})
    with pytest.raises(InputError, match="--encoder: kind must be the name of an encoder, got 3"):
        encoder_of('{"kind": 3, "hidden": 7}')


def test_what_is_given_makes_the_encoder_fit():
    small = Dataset(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.arange(2), ("a", "b"), "small")
    with pytest.raises(InputError, match="images of 8 x 8 are too small for LeNet with padding valid"):
        network_of(None, small, EDL())
    assert network_of('{"padding": "same"}', small, EDL()) == LeNetSpec(1, 8, 8, 2, padding="same")


def test_the_method_says_what_it_needs_of_the_network():
    assert network_of(None, ROWS, Dropout()).dropout > 0
    assert network_of("lenet", IMAGES, Ensemble()).dropout == 0
    assert network_of('{"dropout": 0.3}', IMAGES, Ensemble()).dropout == 0.3


@pytest.mark.parametrize(
    ("text", "data", "reason"),
    [
        ("mlp", IMAGES, "the encoder mlp takes rows, got images of shape .* for these there are: lenet"),
        ("lenet", ROWS, "the encoder lenet takes images, got rows of shape .* for these there are: mlp"),
        ("vgg", IMAGES, "--encoder must be one of lenet, mlp.*, JSON or a JSON file, got 'vgg'"),
        ('{"kind": "vgg"}', IMAGES, "encoder must be one of lenet, mlp.*, got 'vgg'"),
        ('{"kind": ["lenet"]}', IMAGES, "kind must be the name of an encoder, got "),
        ('{"depth": 3}', IMAGES, "the encoder lenet has no setting 'depth'; it has in_channels"),
        ('{"filters": [8]}', IMAGES, "filters must be two whole numbers"),
        ('{"hidden": "big"}', IMAGES, "hidden must be a whole number from 1 on, got 'big'"),
        ('{"dropout": "0.5"}', IMAGES, "dropout must be 0 or more and below 1, got '0.5'"),
        ("{hidden: 3}", IMAGES, "--encoder is no JSON"),
    ],
)
def test_networks_that_do_not_fit(text, data, reason):
    with pytest.raises(InputError, match=reason):
        network_of(text, data, EDL())


def test_a_network_file_that_does_not_fit(tmp_path):
    path = tmp_path / "n.json"
    path.write_text(json.dumps([1, 2]))
    with pytest.raises(InputError, match="--encoder must hold the fields of a network, got list"):
        network_of(str(path), IMAGES, EDL())
    path.write_bytes(b"\xff\x00")
    with pytest.raises(InputError, match="--encoder is no JSON"):
        network_of(str(path), IMAGES, EDL())
