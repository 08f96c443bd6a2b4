"""Every example is run as its reader would run it, on small data, and does what its first lines say."""

from __future__ import annotations

import ast
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.inference.pretrained import TinySpec

import nescio

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
TESTED = {"fine_tuning", "dataloader"}
MOST_LINES = 75  # more is no example any more

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run an example with arguments, in an empty folder and with an empty cache; return what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NESCIO_CACHE", str(tmp_path / "cache"))

    def run_example(name: str, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [name, *(str(argument) for argument in arguments)])
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run_example


def figure(printed: str, name: str) -> float:
    """The number behind "name: " at the beginning of a line."""
    found = re.search(rf"^{re.escape(name)}: ([\d.]+)", printed, re.MULTILINE)
    assert found is not None, f"no line {name!r} in:\n{printed}"
    return float(found[1])


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Noise that is darker or brighter, in pictures of several sizes."""
    generator = np.random.default_rng(0)
    folder = tmp_path / "photos"
    for name, level in (("dark", 0), ("bright", 150)):
        (folder / name).mkdir(parents=True)
        for number in range(75):
            pixels = generator.integers(0, 60, (60 + number % 7, 64, 3)) + level
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{number}.png")
    return folder


def test_all_are_tested_and_short() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == TESTED
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for name in TESTED:
        text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
        assert f"python examples/{name}.py" in (ast.get_docstring(ast.parse(text)) or "")
        assert f"[{name}.py]({name}.py)" in listed
        assert len(text.splitlines()) <= MOST_LINES


def test_fine_tuning(run: Run, photos: Path, tmp_path: Path) -> None:
    printed = run("fine_tuning", photos, "--encoder", TinySpec.kind, "--size", 48, "--epochs", 15)
    assert figure(printed, "frozen") > 0.9
    assert figure(printed, "fine-tuned") > 0.9
    assert len(re.findall(r"^epoch \d+: loss", printed, re.MULTILINE)) == 15
    model = nescio.TrainedModel.load(tmp_path / "fine-tuned.safetensors")
    assert model.encoder is None
    used = model.training["settings"]
    assert (used["optimizer"], used["encoder_rate"], used["augment"]) == ("adamw", 0.1, "light")
    before = TinySpec(48, 2).pretrained_weights()
    after = model.module.state_dict()
    assert all(not torch.equal(after[name], value) for name, value in before.items())


def test_dataloader(run: Run, tmp_path: Path) -> None:
    printed = run("dataloader", "--epochs", 10)
    assert figure(printed, "accuracy") > 0.9  # of eight digits
    assert figure(printed, "AUROC of 8 and 9") > 0.8
    assert (tmp_path / "digits.safetensors").stat().st_size > 30_000
