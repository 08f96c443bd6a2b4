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
from tests.examples.tiny_texts import TinyTextSpec
from tests.inference.pretrained import TinySpec
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

import nescio
from nescio.data._catalog import CLINC150
from nescio.integrations import transformers as nescio_hf

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
TESTED = {"photos", "text", "table", "fine_tuning", "dataloader", "transformers_trainer"}
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


def test_photos(run: Run, photos: Path, tmp_path: Path) -> None:
    arguments = ("--encoder", TinySpec.kind, "--size", 48, "--epochs", 25, "--max-error", 0.2)
    printed = run("photos", photos, *arguments, "--new", photos / "dark" / "3.png")
    assert figure(printed, "accuracy") > 0.9  # half of them are dark
    assert figure(printed, "answered") > 0.3
    assert figure(printed, "accuracy of the answers") > 0.9
    assert "at most 20% with 95% confidence" in printed
    assert re.search(r"3\.png: (dark|I do not know)$", printed, re.MULTILINE)
    model = nescio.TrainedModel.load(tmp_path / "photos.safetensors")
    assert model.classes == ("bright", "dark")
    assert model.encoder is not None
    assert model.rule is not None


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


@pytest.mark.parametrize(("options", "intents"), [((), 3), (("--intents", 2), 2)])
def test_text(
    run: Run, small_clinc150: None, tmp_path: Path, options: tuple[object, ...], intents: int
) -> None:
    printed = run("text", "--encoder", TinyTextSpec.kind, "--epochs", 30, *options)
    assert figure(printed, "accuracy") > 0.9
    assert figure(printed, "AUROC of 20 questions out of scope, by their uncertainty") > 0.8
    model = nescio.TrainedModel.load(tmp_path / "intents.safetensors")
    assert len(model.classes) == intents
    assert model.records("play the song")[0]["best"] in model.classes


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
def test_transformers_trainer(run: Run, small_clinc150: None, monkeypatch: pytest.MonkeyPatch) -> None:
    words = Tokenizer.from_str(TinyTextSpec(8, 3).tokenizer_json())
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")
    monkeypatch.setattr(nescio_hf, "minilm_tokenizer", lambda max_length: tokenizer)  # which is fetched
    printed = run("transformers_trainer", "--model", "small", "--epochs", 20)
    assert figure(printed, "accuracy") > 0.8
    assert figure(printed, "AUROC of 20 questions out of scope, by their uncertainty") > 0.5
    assert re.search(r"^Opinion\(batch \(30,\), 3 classes", printed, re.MULTILINE)


def test_table_that_is_made_up(run: Run, tmp_path: Path) -> None:
    printed = run("table", "--rows", 600, "--epochs", 30)
    rows = (tmp_path / "bookings.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 601
    assert any(",," in row for row in rows)  # there are gaps
    (commonest,) = re.findall(r"commonest: ([\d.]+)", printed)
    assert figure(printed, "accuracy") > float(commonest) + 0.1
    model = nescio.TrainedModel.load(tmp_path / "table.safetensors")
    assert model.classes == ("cancelled", "kept")
    kinds = {column.name: column.kind for column in model.preprocess.schema.columns}
    assert kinds == {"room": "category", "nights": "number", "price": "number", "arrival": "date"}
    assert re.search(r"^new.csv:1: (kept|cancelled|I do not know)$", printed, re.MULTILINE)
    assert re.search(r"^new.csv:3: .*arrival", printed, re.MULTILINE)  # training saw no gap there


def test_table_of_your_own(run: Run, tmp_path: Path) -> None:
    lines = ["kind,length"]
    for number in range(60):
        lines += [f"small,{1 + number % 7}", f"large,{9 + number % 5}"]
    (tmp_path / "mine.csv").write_text("\n".join(lines))
    printed = run("table", "mine.csv", "--label", "kind", "--epochs", 60, "--out", "mine.safetensors")
    assert figure(printed, "accuracy") > 0.9
    assert not (tmp_path / "bookings.csv").exists()
    assert nescio.TrainedModel.load(tmp_path / "mine.safetensors").classes == ("large", "small")


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
