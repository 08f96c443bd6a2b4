"""The page on encoders: its numbers are counted, its example runs."""

import re
from pathlib import Path

import pytest

from nescio.encoders import Ability, make_encoder

PAGE = (Path(__file__).parents[1] / "docs" / "encoders.md").read_text()
SHAPES = {
    "lenet": (1, 28, 28),
    "mlp": (16,),
    "resnet18": (3, 224, 224),
    "resnet50": (3, 224, 224),
    "efficientnet-lite0": None,
    "minilm": None,
}


@pytest.mark.parametrize("name", SHAPES)
def test_sizes(name):
    spec = make_encoder(name, SHAPES[name], 10)
    row = re.search(rf"^\| `{name}` \|(.*)\|$", PAGE, flags=re.MULTILINE)[1]
    _, weights, features, start, licence = (cell.strip() for cell in row.split("|"))
    assert weights == f"{sum(weight.numel() for weight in spec.build().parameters()):,}"
    assert features == str(spec.num_features)
    is_pretrained = Ability.PRETRAINED in spec.abilities
    assert (start != "the start") == (licence != "") == is_pretrained


def test_abilities():
    table = PAGE.split("## What each can do")[1].split("## ")[0]
    for line in table.splitlines():
        names = re.findall(r"`([a-z0-9-]+)`", line.partition("|")[2].partition("|")[0])
        cells = [cell.strip() == "yes" for cell in line.split("|")[2:-1]]
        for name in names:
            found = make_encoder(name, SHAPES[name], 10).abilities
            order = (Ability.DROPOUT, Ability.LAYERS, Ability.FEATURES, Ability.PRETRAINED)
            assert cells == [ability in found for ability in order], name


def test_the_example_runs():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names = {}
    exec(compile(code, "encoders.md", "exec"), names)
    assert names["features"].shape == (8, 64)
    assert names["logits"].shape == (8, 5)
