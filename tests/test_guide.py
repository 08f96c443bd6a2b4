"""The longer examples of the guide, run as they stand."""

import re
from pathlib import Path

import pytest
import torch

import nescio as ev
from nescio.data import load
from nescio.methods.conversion import from_softmax

GUIDE = Path(__file__).parents[1] / "docs" / "guide.md"


def example(heading):
    """The names that a section's code leaves behind."""
    section = GUIDE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    names = {}
    exec(compile(code, f"{GUIDE.name}, {heading}", "exec"), names)
    return names


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def uncertainty(network, images):
    with torch.no_grad():
        return ev.Opinion.from_logits(network(images / 255)).uncertainty


def auroc(known, ood):
    """The chance that an OOD image is more uncertain than a known one, by counting all pairs."""
    return float((ood.unsqueeze(1) > known.unsqueeze(0)).double().mean())


def test_a_trained_softmax_network():
    names = example("A trained softmax network")
    digits, letters = load("digits", "test"), load("letters", "test")
    before = names["softmax"](digits.images / 255).argmax(1)
    known, ood = names["known"], names["ood"]
    right = float((known.labels == digits.labels).double().mean())
    assert right > 0.88
    assert right > float((before == digits.labels).double().mean()) - 0.02
    assert ood.uncertainty.median() > 0.5 > known.uncertainty.median()
    untrained = from_softmax(names["softmax"], names["x"][:1000])
    first = auroc(*(uncertainty(untrained, data.images) for data in (digits, letters)))
    assert auroc(known.uncertainty, ood.uncertainty) > first + 0.2


def test_a_network_of_your_own(tmp_path):
    names = example("A network of your own")
    model, again, digits = names["model"], names["again"], load("digits", "test")
    assert (tmp_path / "small.safetensors").stat().st_size > 0
    assert again.module is not model.module
    assert torch.equal(names["opinion"].evidence, model.predict(digits.images).evidence)
    assert (names["opinion"].labels == digits.labels).double().mean() > 0.85


def test_your_own_data_in_python():
    names = example("Your own data in Python")
    small, broken = names["records"]
    assert (small["best"], small["error"]) == ("small", None)
    assert (
        broken["error"]
        == "new.csv, line 3, column length: a finite number expected that float32 can hold, got 'ten'"
    )
    assert [small["name"], broken["name"]] == ["new.csv:1", "new.csv:2"]


def test_tables_and_texts():
    with pytest.warns(ev.NescioWarning, match="column id is dropped: it counts the rows"):
        names = example("Tables and texts")
    known, unseen, gap = names["records"]
    assert (known["best"], known["error"], unseen["error"]) == ("rose", None, None)
    expected = (
        "new.csv, line 4, column picked: a date expected, year-month-day, got ''; training saw no gap here"
    )
    assert gap["error"] == expected
    kinds = [column.kind for column in names["model"].preprocess.schema.columns]
    assert kinds == ["category", "date", "number"]
