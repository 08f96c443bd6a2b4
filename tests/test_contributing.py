"""What CONTRIBUTING.md shows works as it stands, and is as short as it says."""

import ast
import re
import sys
import types
from pathlib import Path

import pytest
import torch

from nescio.encoders import MLPSpec
from nescio.methods import Batch
from nescio.methods.registry import METHODS
from nescio.testing import METHOD_CHECKS

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
MOST_LINES = 60


@pytest.fixture
def method(monkeypatch):
    module = types.ModuleType("brier")
    monkeypatch.setitem(sys.modules, "brier", module)  # where a dataclass looks for it
    exec(compile(EXAMPLE, "CONTRIBUTING.md", "exec"), module.__dict__)
    return module.Brier


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
def test_its_method_keeps_the_contract(method, check, monkeypatch):
    monkeypatch.setattr(METHODS, "_items", {**METHODS._items, "brier": method})
    check(method(), MLPSpec(5, 2, hidden=(8,)))


def test_its_loss_is_what_it_says(method):
    torch.manual_seed(0)
    module, batch = MLPSpec(4, 3).build(), Batch(torch.randn(5, 4), torch.arange(5) % 3)
    loss, logits = method().objective(module, batch, 0.0, 5)
    naive = 0.0
    for row, label in zip(logits.softmax(1).tolist(), batch.labels.tolist(), strict=True):
        for k, probability in enumerate(row):
            naive += (probability - (k == label)) ** 2 / 5
    assert loss.item() == pytest.approx(naive, rel=1e-5)


def test_it_is_short():
    (docstring,) = [
        ast.get_docstring(node, clean=False)
        for node in ast.parse(EXAMPLE).body
        if isinstance(node, ast.ClassDef)
    ]
    assert len(EXAMPLE.splitlines()) - len(docstring.splitlines()) <= MOST_LINES


def test_the_names_that_it_mentions_are_there():
    root = Path(__file__).parents[1]
    for path in re.findall(r"`((?:src|tests)/[\w/.]+)`", TEXT):
        if "NAME" not in path and "brier" not in path:
            assert (root / path).exists(), path
