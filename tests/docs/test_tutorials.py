"""Every tutorial is run by the code that builds the site, made small, and does what its text says."""

from __future__ import annotations

import warnings

import nbformat
import numpy as np
import pytest
import torch
from tests.docs.tiny_texts import TinyTextSpec
from tests.inference.pretrained import TinySpec
from tokenizers import Tokenizer
from tools.docs import tutorials
from transformers import PreTrainedTokenizerFast

import nescio
from nescio.data import Dataset, Texts
from nescio.integrations import transformers as nescio_hf
from nescio.methods.registry import METHODS

# What `run` leaves small; the assertions stand in CHECKS.
SMALL = {
    "own_loop": {"epochs": 12},
    "softmax_model": {"epochs": 2, "more_epochs": 2},
    "photos": {"encoder": TinySpec.kind, "size": 32, "each": 110, "epochs": 30},
    "text": {"encoder": TinyTextSpec.kind, "num_intents": 3, "epochs": 40},
    "trainer": {"start": "small", "num_intents": 3, "epochs": 3},
    "table": {"epochs": 20, "rows": 500},
    "which_doubt": {"epochs": 6},
    "many_classes": {"num_classes": 60, "epochs": 8},
    "segmentation": {"num_train": 100, "epochs": 14},
    "serving": {"epochs": 8},
    "own_method": {"epochs": 3},
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a tutorial in an empty folder; give back its names and all that it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(METHODS, "_items", dict(METHODS._items))

    def run_small(name):
        with torch.random.fork_rng(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few epochs; data are few for a promise; arrays of tensors
            notebook, names = tutorials.run(name, SMALL[name])
        printed = []
        for cell in notebook.cells:
            for output in cell.get("outputs", []):
                printed.append(output.get("text") or output.data["text/plain"])
        return names, "\n".join(printed)

    return run_small


def auroc(known, ood):
    return nescio.metrics.detection(known, ood).auroc


def test_all_are_listed_and_tested():
    assert sorted(tutorials.ORDER) == sorted(SMALL) == tutorials.names()


def test_own_loop(run):
    names, _ = run("own_loop")
    assert nescio.metrics.accuracy(names["opinion"], names["labels"][names["test"]]) > 0.85
    assert auroc(names["opinion"].uncertainty, names["of_unknown"].uncertainty) > 0.8


def test_softmax_model(run):
    names, _ = run("softmax_model")
    assert auroc(names["p_letters"].neg(), names["p_digits"].neg()) < 0.1  # letters have the small p-values
    assert names["is_covered"].double().mean() > 0.97
    before = auroc(names["known"].uncertainty, names["ood"].uncertainty)
    assert auroc(names["known_now"].uncertainty, names["ood_now"].uncertainty) > before


def test_table(run):
    names, printed = run("table")
    assert names["search"].score(names["X_test"], names["y_test"]) > 0.8
    assert "new.csv:1 " in printed
    assert "column arrival" in printed  # a row without a date is an error of its own


def test_which_doubt(run):
    names, _ = run("which_doubt")
    assert names["errors"] < 0.06
    assert names["is_covered"].double().mean() > 0.93
    shares = {name: float((p <= 0.05).double().mean()) for name, p in names["p_unknown"].items()}
    assert (names["p_known"] <= 0.05).double().mean() < 0.15
    assert shares["negatives"] > 0.8
    assert set(names["record"]) >= {"answer", "uncertainty", "p_value", "set"}


def test_many_classes(run):
    names, printed = run("many_classes")
    accuracies = {
        name: nescio.metrics.raw_accuracy(opinion, names["y_test"])
        for name, opinion in names["opinions"].items()
    }
    assert accuracies["default, weight auto"] > accuracies["the paper's, weight 1"] + 0.1
    assert "held-out samples of each" in printed  # too few for a promise by class


def test_segmentation(run):
    names, _ = run("segmentation")
    opinion, counted = names["opinion"], names["counted"]
    assert opinion.uncertainty.shape == (60, 48, 48)
    assert nescio.metrics.accuracy(opinion[counted], names["y_test"][counted]) > 0.9
    assert names["found"].auroc > 0.7


def test_serving(run, tmp_path):
    names, printed = run("serving")
    said = names["answer"]["results"][0]["opinions"]
    assert said[0]["error"] is None
    assert "malic_acid" in said[2]["error"]
    assert names["service"].returncode == 0
    assert len((tmp_path / "opinions.csv").read_text().splitlines()) == 179
    assert "nescio_opinions_total" in printed


def test_own_method(run):
    names, printed = run("own_method")
    assert names["Brier"].name in METHODS
    assert "brier: accuracy" in printed
    assert "loss must stay float64, got torch.float32" in printed  # what the careless one is told


@pytest.fixture
def cifar(monkeypatch):
    """Stands in for CIFAR-10: each kind is a colour."""
    generator = np.random.default_rng(0)
    kinds = ("airplane", "automobile", "cat", "ship", "frog", "horse")
    colours = generator.integers(0, 200, (6, 1, 3, 1, 1))
    images = generator.integers(0, 50, (6, 110, 3, 32, 32)) + colours
    pixels = torch.tensor(images.reshape(-1, 3, 32, 32), dtype=torch.uint8)
    labels = torch.arange(6).repeat_interleave(110)
    made = Dataset(pixels, labels, kinds, "cifar10")
    monkeypatch.setattr(nescio.data, "load", lambda name, split: made)


def test_photos(run, cifar, tmp_path, monkeypatch):
    monkeypatch.setenv("NESCIO_CACHE", str(tmp_path / "cache"))
    names, _ = run("photos")
    assert nescio.metrics.accuracy(names["known"], names["model"].labels_of(names["test"])) > 0.8
    assert names["model"].rule is not None
    assert len(list((tmp_path / "photos" / "cat").iterdir())) == 110


@pytest.fixture
def clinc150(monkeypatch):
    """Stands in for CLINC150: each intent has words of its own."""
    generator = np.random.default_rng(0)
    topics = {"bank": "pay bill bank", "forecast": "rain sun weather", "music": "play song music"}

    def questions(count):
        texts, labels = [], []
        for label, words in enumerate(topics.values()):
            for _ in range(count):
                texts.append(" ".join([*generator.choice(words.split(), 3), "the"]))
                labels.append(label)
        return Texts(tuple(texts), torch.tensor(labels), tuple(topics), "clinc150")

    other = Texts(
        ("how tall is that tower", "who painted it") * 10, torch.zeros(20, dtype=torch.long), ("oos",), "oos"
    )
    made = {
        ("clinc150", "train"): questions(150),
        ("clinc150", "test"): questions(20),
        ("clinc150-oos", "test"): other,
    }
    monkeypatch.setattr(nescio.data, "load", lambda name, split: made[name, split])


def test_text(run, clinc150, tmp_path, monkeypatch):
    monkeypatch.setenv("NESCIO_CACHE", str(tmp_path / "cache"))
    names, printed = run("text")
    assert nescio.metrics.accuracy(names["known"], names["model"].labels_of(names["test"])) > 0.9
    assert auroc(names["known"].uncertainty, names["unknown"].uncertainty) > 0.8
    assert "I do not know" in printed


def test_trainer(run, clinc150, monkeypatch):
    words = Tokenizer.from_str(TinyTextSpec(8, 3).tokenizer_json())
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")
    monkeypatch.setattr(nescio_hf, "minilm_tokenizer", lambda max_length: tokenizer)  # which is fetched
    names, printed = run("trainer")
    assert nescio.metrics.accuracy(names["known"], names["test"].labels) > 0.9
    assert names["found"].auroc > 0.8
    assert names["accepted"].double().mean() > 0.8
    assert "'who painted it': " in printed


@pytest.mark.parametrize("path", sorted(tutorials.KEPT.glob("*.ipynb")), ids=lambda path: path.stem)
def test_committed_outputs_are_of_the_present_script(path):
    notebook = nbformat.read(path, as_version=4)
    expected = f"call: python -m tools.docs.tutorials {path.stem} --keep"
    assert notebook.metadata["script"] == tutorials.script_digest(path.stem), expected


@pytest.mark.parametrize("path", sorted(tutorials.KEPT.glob("*.ipynb")), ids=lambda path: path.stem)
def test_committed_outputs_name_no_folder_of_a_machine(path):
    assert "site-packages" not in path.read_text(encoding="utf-8")


def test_only_those_without_data_of_a_registry_are_committed():
    assert {path.stem for path in tutorials.KEPT.iterdir()} <= {"text", "trainer", "photos"}
