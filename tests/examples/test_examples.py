"""Every example is run as its reader would run it, on small data, and does what its first lines say."""

from __future__ import annotations

import ast
import json
import random
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.docs.tiny_texts import TinyTextSpec
from tests.inference.pretrained import TinySpec
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

import nescio
from nescio.data._catalog import CLINC150
from nescio.integrations import transformers as nescio_hf

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
TESTED = {"fine_tuning", "dataloader", "transformers_trainer"}
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


@pytest.fixture
def small_clinc150(tmp_path: Path) -> None:
    """A file as long as the published one: the loader trusts what is in the cache."""
    topics = {"music": "play song music", "bank": "pay bill bank", "forecast": "rain sun weather"}
    chance = random.Random(0)

    def questions(count: int) -> list[list[str]]:
        pairs = []
        for intent, words in topics.items():
            for _ in range(count):
                chosen = [chance.choice(words.split()) for _ in range(3)]
                pairs.append([" ".join([*chosen, chance.choice(("the", "a"))]), intent])
        return pairs

    others = [["how tall is that tower", "oos"], ["who painted the ceiling", "oos"]] * 10
    content = json.dumps({"train": questions(40), "test": questions(10), "oos_test": others})
    (file,) = CLINC150.files
    folder = tmp_path / "cache" / "clinc150"
    folder.mkdir(parents=True)
    (folder / file.name).write_text(content.ljust(file.size))


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
def test_transformers_trainer(run: Run, small_clinc150: None, monkeypatch: pytest.MonkeyPatch) -> None:
    words = Tokenizer.from_str(TinyTextSpec(8, 3).tokenizer_json())
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")
    monkeypatch.setattr(nescio_hf, "minilm_tokenizer", lambda max_length: tokenizer)  # which is fetched
    printed = run("transformers_trainer", "--model", "small", "--epochs", 20)
    assert figure(printed, "accuracy") > 0.8
    assert figure(printed, "AUROC of 20 questions out of scope, by their uncertainty") > 0.5
    assert re.search(r"^Opinion\(batch \(30,\), 3 classes", printed, re.MULTILINE)


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
