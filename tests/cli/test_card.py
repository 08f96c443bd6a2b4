"""The model card that training and evaluation leave behind."""

import json
import shutil
import sys

import pytest
import torch
from sklearn.datasets import load_iris
from tests.reports.cases import page_of

from nescio.cli import _card, app
from nescio.data import Table
from nescio.inference.model import TrainedModel

FEW = ("--epochs", 12, "--batch-size", 8, "--learning-rate", 0.01)


def call(*words):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["nescio", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            app.main()
    return ended.value.code or 0


@pytest.fixture(scope="module")
def flowers(tmp_path_factory):
    X, y = load_iris(return_X_y=True)
    names = ["setosa", "<b>versicolor</b>", "virginica"]
    lines = [",".join(map(str, [*row, names[label]])) for row, label in zip(X, y, strict=True)]
    path = tmp_path_factory.mktemp("flowers") / "flowers.csv"
    path.write_text("\n".join(["sepal length,sepal width,petal length,petal width,label", *lines]))
    return path


@pytest.fixture(scope="module")
def trained(flowers, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "iris"
    assert call("train", flowers, "--out", out, *FEW) == 0
    return out


def test_training_leaves_a_card_beside_the_model(trained):
    text, _ = page_of(trained / "report.html")
    assert "<h1>iris</h1>" in text
    assert "30 rows from flowers; drawn by chance from every class alike" in text
    assert "120 rows from flowers" in text
    assert "sepal length" in text
    assert "nescio train" in text
    assert (trained / "card.md").read_text(encoding="utf-8").startswith("---\nlibrary_name: nescio\n")
    assert (trained / "card" / "calibration.png").is_file()


def test_training_says_where_the_card_is(flowers, tmp_path, capsys):
    call("train", flowers, "--out", tmp_path / "run", *FEW)
    said = capsys.readouterr().err
    report = tmp_path / "run" / "report.html"
    assert f"{report}: the model card" in said
    # Every example calls its folder so: the name of the data says more.
    assert "<h1>flowers, edl</h1>" in page_of(report)[0]


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_without_the_extra_training_still_works(flowers, tmp_path, monkeypatch, capsys, package):
    monkeypatch.setitem(sys.modules, package, None)
    assert call("train", flowers, "--out", tmp_path / "run", *FEW) == 0
    said = capsys.readouterr().err.splitlines()[-1]
    reason = f"{package} is not installed; install it with: pip install 'nescio[demo]'"
    assert said == f"no model card was written: {reason}"
    assert (tmp_path / "run" / "model.safetensors").is_file()
    assert not (tmp_path / "run" / "card.md").exists()


def test_a_card_that_can_not_be_written_leaves_the_model(flowers, tmp_path, capsys):
    (tmp_path / "run" / "card.md").mkdir(parents=True)
    assert call("train", flowers, "--out", tmp_path / "run", *FEW) == 0
    assert "no model card was written: " in capsys.readouterr().err
    assert (tmp_path / "run" / "model.safetensors").is_file()


@pytest.fixture
def model(trained, tmp_path):
    return shutil.copy(trained / "model.safetensors", tmp_path / "flowers-v2.safetensors")


def test_evaluation_writes_a_card_where_it_is_asked_to(flowers, model, tmp_path, capsys):
    (tmp_path / "far.csv").write_text(
        "sepal length,sepal width,petal length,petal width\n90,1,80,2\n1,90,3,70\n"
    )
    words = ("evaluate", model, "--data", flowers, "--ood", tmp_path / "far.csv", "--card", tmp_path / "new")
    assert call(*words, "--json") == 0
    measures = json.loads(capsys.readouterr().out)
    text, page = page_of(tmp_path / "new" / "report.html")
    assert "<h1>flowers-v2</h1>" in text
    assert f"{measures['accuracy']:.1%}" in text
    assert "only if the model was not trained on it" in text
    assert "2 inputs of" in text
    assert "ood-part" in page.values("id")
    assert "flowers-v2.safetensors" in (tmp_path / "new" / "card.md").read_text(encoding="utf-8")


def test_a_run_gives_the_card_its_name(flowers, trained, tmp_path):
    assert call("evaluate", trained, "--data", flowers, "--card", tmp_path) == 0
    assert "<h1>iris</h1>" in page_of(tmp_path / "report.html")[0]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("a=MODEL", "b=MODEL", "--card", "new"), "--card is for one model, got 2"),
        (("MODEL", "--card", "file"), "--card must be a folder, got the file file"),
    ],
)
def test_what_no_card_can_be_written_for(flowers, model, tmp_path, monkeypatch, capsys, words, reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    named = [word.replace("MODEL", str(model)) for word in words]
    assert call("evaluate", *named, "--data", flowers) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line


def test_without_the_extra_nothing_is_measured_for_a_card(flowers, model, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(TrainedModel, "predict", None)
    assert call("evaluate", model, "--data", flowers, "--card", tmp_path / "new") == 1
    assert "pip install 'nescio[demo]'" in capsys.readouterr().err


def some_rows(**fields):
    return Table(torch.eye(2), torch.tensor([0, 1]), ("a", "b"), "two", **fields)


@pytest.mark.parametrize(
    ("data", "name", "expected"),
    [
        (some_rows(), "digits", "the test part of the data set"),
        (some_rows(parts=torch.tensor([2, 2])), "mine", "what the data itself names its test part"),
        (some_rows(parts=torch.tensor([1, 1])), "mine", "what the data itself names its validation part"),
        (some_rows(groups=torch.tensor([0, 1])), "mine", "whole groups, drawn by chance"),
        (some_rows(parts=torch.tensor([0, 0])), "mine", "drawn by chance from every class alike"),
    ],
)
def test_how_it_was_split_is_said(data, name, expected):
    assert _card._split_text(data, name).startswith(expected)
