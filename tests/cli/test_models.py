"""The commands from a folder to a decision, on real digits."""

import csv
import io
import json
import sys

import pytest
import torch
from PIL import Image

from evidentia.cli import app
from evidentia.data import load
from evidentia.model import TrainedModel


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*words):
        monkeypatch.setattr(sys, "argv", ["evidentia", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            app.main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return call


@pytest.fixture(scope="module")
def photos(tmp_path_factory, session_cache):
    """Class folders with 40 digits each of 0, 1 and 2."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVIDENTIA_CACHE", str(session_cache))
        digits = load("digits").only(["0", "1", "2"])
    folder = tmp_path_factory.mktemp("photos")
    for label, name in enumerate(("zero", "one", "two")):
        (folder / name).mkdir()
        for index, image in enumerate(digits.images[digits.labels == label][:40]):
            Image.fromarray(image[0].numpy()).save(folder / name / f"{index}.png")
    return folder


@pytest.fixture(scope="module")
def model(photos, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    words = ["evidentia", "train", photos, "--out", out, "--epochs", 12, "--batch-size", 16]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(word) for word in words])
        with pytest.raises(SystemExit) as ended:
            app.main()
    assert not ended.value.code
    return out / "model.safetensors"


def test_train_leaves_model_metrics_and_checkpoint(model):
    names = {path.name for path in model.parent.iterdir()}
    assert names == {"model.safetensors", "metrics.jsonl", "settings.json", "checkpoint.safetensors"}
    lines = [json.loads(line) for line in (model.parent / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 12
    assert lines[-1]["held_out_accuracy"] > 0.8


def test_train_again_has_nothing_left_to_do(run, photos, model):
    before = model.read_bytes()
    code, out, _ = run("train", photos, "--out", model.parent, "--epochs", 12, "--batch-size", 16)
    assert code == 0
    assert "held-out accuracy" in out
    assert model.read_bytes() == before


def test_train_with_other_settings_is_refused(run, photos, model):
    code, _, err = run("train", photos, "--out", model.parent, "--epochs", 13)
    assert code == 1
    assert "holds another training (settings differ)" in err


def test_predict_in_three_forms(run, model, photos):
    code, out, _ = run("predict", model, photos / "one", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert len(rows) == 40
    assert sum(row["best"] == "one" for row in rows) > 35
    assert all(row["answer"] in ("one", "two", "zero", "I do not know") for row in rows)
    code, out, _ = run("predict", model, photos / "one" / "0.png", photos / "two" / "1.png", "--csv")
    table = list(csv.DictReader(io.StringIO(out)))
    assert [row["file"] for row in table] == [str(photos / "one" / "0.png"), str(photos / "two" / "1.png")]
    code, out, _ = run("predict", model, photos / "zero" / "0.png")
    assert code == 0
    assert "uncertainty" in out


def test_noise_is_not_known_better_than_a_digit(run, model, photos, tmp_path):
    noise = torch.randint(256, (28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    Image.fromarray(noise.numpy()).save(tmp_path / "noise.png")
    rows = run("predict", model, tmp_path / "noise.png", photos / "zero" / "0.png", "--json")[1].splitlines()
    strange, familiar = (json.loads(row)["uncertainty"] for row in rows)
    assert strange > familiar


def test_evaluate_with_strangers(run, model, photos):
    code, out, _ = run("evaluate", model, "--data", photos, "--ood", "letters", "--json")
    result = json.loads(out)
    assert code == 0
    assert result["accuracy"] > 0.8
    assert 0.5 < result["ood"]["entropy_auroc"] <= 1
    code, out, _ = run("evaluate", model, "--data", photos)
    assert code == 0
    assert "accuracy" in out


def test_threshold_is_kept_in_the_model(run, model, photos):
    code, out, _ = run("threshold", model, "--data", photos, "--risk", 0.2, "--confidence", 0.9)
    assert code == 0
    assert "at most 20" in out
    assert TrainedModel.load(model).rule.target_error == 0.2
    assert run("train", photos, "--out", model.parent, "--epochs", 12, "--batch-size", 16)[0] == 0
    assert TrainedModel.load(model).rule.target_error == 0.2  # a training with nothing left to do keeps it


@pytest.mark.filterwarnings("ignore")
def test_export(run, model, tmp_path):
    code, out, _ = run("export", model, "--onnx", tmp_path / "m.onnx", "--program", tmp_path / "m.pt2")
    assert code == 0
    assert (tmp_path / "m.onnx").exists()
    assert (tmp_path / "m.pt2").exists()
    assert "written" in out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("train", "imagenet", "--out", "x"), "there is no data set 'imagenet'"),
        (("train", "digits", "--out", "x", "--method", "magic"), "method must be one of l2, "),
        (("train", "digits", "--out", "x", "--epochs", "0"), "epochs must be a whole number"),
        (("predict", "none.safetensors", "x.png"), "there is no file none.safetensors"),
        (("train", "digits", "--out", "x", "--size", "20"), "--size goes with a folder of pictures"),
        (("export", "MODEL"), "say what to write"),
        (("predict", "MODEL", "EMPTY"), "holds no picture"),
        (("predict", "MODEL", "missing.png"), "missing.png"),
        (("evaluate", "MODEL", "--data", "digits"), "classes that the model never saw: 0, 1, 2"),
    ],
)
def test_errors_are_one_line(run, model, tmp_path, monkeypatch, words, reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    real = {"MODEL": model, "EMPTY": "empty"}
    code, out, err = run(*(real.get(word, word) for word in words))
    assert (code, out) == (1, "")
    assert reason in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "x").exists()
