"""The commands from a folder to a decision, on real digits."""

import csv
import io
import json
import logging
import pickle
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from sklearn.datasets import load_iris

from nescio._files import read_tensors, write_tensors
from nescio.cli import app
from nescio.cli._models import _print_measures
from nescio.data import load, open_source, split
from nescio.inference.model import TrainedModel
from nescio.methods import METHODS


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*words):
        monkeypatch.setattr(sys, "argv", ["nescio", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            app.main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return call


def class_folders(folder, session_cache, chosen):
    """Some of the digits 0, 1 and 2, in a folder each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NESCIO_CACHE", str(session_cache))
        digits = load("digits").only(["0", "1", "2"])
    for label, name in enumerate(("zero", "one", "two")):
        (folder / name).mkdir()
        for index, image in enumerate(digits.images[digits.labels == label][chosen]):
            Image.fromarray(image[0].numpy()).save(folder / name / f"{index}.png")
    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory, session_cache):
    """40 of each class."""
    return class_folders(tmp_path_factory.mktemp("photos"), session_cache, slice(40))


@pytest.fixture(scope="module")
def unseen(tmp_path_factory, session_cache):
    """40 others of each class."""
    return class_folders(tmp_path_factory.mktemp("unseen"), session_cache, slice(40, 80))


def train(*words):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["nescio", "train", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            app.main()
    assert not ended.value.code


@pytest.fixture(scope="module")
def model(photos, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    train(photos, "--out", out, "--epochs", 12, "--batch-size", 16)
    return out / "model.safetensors"


@pytest.fixture(scope="module")
def flowers(tmp_path_factory):
    """A .csv of measured flowers, of three kinds."""
    X, y = load_iris(return_X_y=True)
    path = tmp_path_factory.mktemp("flowers") / "flowers.csv"
    names = ["setosa", "versicolor", "virginica"]
    lines = [",".join(map(str, [*row, names[label]])) for row, label in zip(X, y, strict=True)]
    path.write_text("\n".join(["a,b,c,d,label", *lines]))
    return path


FEW = ("--epochs", 12, "--batch-size", 8, "--learning-rate", 0.01)


@pytest.fixture(scope="module")
def rows_run(flowers, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "rows"
    train(flowers, "--out", out, *FEW)
    return out


@pytest.fixture
def rows_model(rows_run, tmp_path):
    """In a run of its own, to spoil."""
    return shutil.copytree(rows_run, tmp_path / "rows") / "model.safetensors"


def test_help_lists_the_methods_there_are(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = run("train", "--help")
    assert code == 0
    assert f"One of {', '.join(METHODS)}." in " ".join(out.split())


def test_train_leaves_model_metrics_and_checkpoint(model):
    names = {path.name for path in model.parent.iterdir()}
    run_files = {"model.safetensors", "metrics.jsonl", "settings.json", "checkpoint.safetensors"}
    assert names == run_files | {"card.md", "report.html", "card"}
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
    code, _, err = run("train", photos, "--out", model.parent, "--epochs", 13, "--batch-size", 8)
    assert code == 1
    assert "holds another training: --epochs was 12 and is now 13, --batch-size was 16 and is now 8;" in err


def test_a_training_that_learned_nothing_ends_with_an_error_that_says_what_to_do(run, tmp_path):
    rows = "".join(f"{number // 2 % 2},{number // 4 % 2},{'ab'[number % 2]}\n" for number in range(100))
    (tmp_path / "alike.csv").write_text(f"a,b,label\n{rows}")
    words = ("--epochs", 20, "--batch-size", 8, "--learning-rate", 0.5)
    code, out, err = run("train", tmp_path / "alike.csv", "--out", tmp_path / "run", *words)
    assert code == 1
    assert "held-out accuracy" in out
    *_, last = err.splitlines()
    assert last.startswith(f"error: {tmp_path / 'run'} has learned nothing: an accuracy of 0.")
    assert (
        "as good as guessing. Train again in another folder with a lower --learning-rate (it was 0.5)" in last
    )
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_a_run_is_lengthened(run, flowers, tmp_path):
    for epochs in (3, 5):
        code, _, err = run("train", flowers, "--out", tmp_path, "--epochs", epochs)
        assert code == 0
    assert "is lengthened from 3 to 5 epochs" in err
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 5


def test_what_train_says_is_what_the_file_does(run, photos, model):
    words = ("--epochs", 12, "--batch-size", 16)
    out = run("train", photos, "--out", model.parent, *words)[1]
    _, held_out = split(open_source(photos).labelled(), 0.2, 0)
    opinion = TrainedModel.load(model).predict(held_out.images)
    accuracy = (opinion.labels == held_out.labels).double().mean()
    doubt = opinion.uncertainty.mean()
    assert out == f"{model}: held-out accuracy {accuracy:.4f}, mean uncertainty {doubt:.3f}\n"


def test_train_with_a_network_a_schedule_and_settings(run, flowers, tmp_path):
    network = '{"kind": "mlp", "hidden": [9]}'
    words = ("--network", network, "--schedule", "constant", "--set", "evidence=relu", "--set", "risk=type2")
    code, _, _ = run("train", flowers, "--out", tmp_path / "run", "--epochs", 1, *words)
    trained = TrainedModel.load(tmp_path / "run" / "model.safetensors")
    assert code == 0
    assert (trained.network.hidden, trained.network.in_features, trained.network.num_classes) == ((9,), 4, 3)
    assert (trained.method.evidence, trained.method.risk) == ("relu", "type2")
    assert trained.training["settings"]["schedule"] == "constant"


def test_patience_watches_a_part_of_the_training_data(run, flowers, tmp_path):
    # A rate this high makes the watched loss go up and down, so that the last epoch is not the best.
    words = ("--epochs", 60, "--patience", 3, "--batch-size", 8, "--learning-rate", 0.05, "--seed", 4)
    code, out, _ = run("train", flowers, "--out", tmp_path / "run", *words)
    known, test = split(open_source(flowers).labelled(), 0.2, 4)
    train, watched = split(known, 0.1, 4)
    path = tmp_path / "run" / "model.safetensors"
    trained = TrainedModel.load(path)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line)["held_out_loss"] for line in lines]
    best = json.loads(lines[losses.index(min(losses))])

    def accuracy(data):
        return float((trained.predict(data.features).labels == data.labels).double().mean())

    assert code == 0
    assert best["epoch"] == len(lines) - 3 < 57
    assert trained.training["data"]["samples"] == len(train) == 108
    assert accuracy(watched) == pytest.approx(best["held_out_accuracy"])
    first, second = out.splitlines()
    assert first.startswith(f"{path}: held-out accuracy {accuracy(test):.4f}, ")
    assert second.startswith(
        f"kept epoch {best['epoch']} of {len(lines)}, the best on the tenth of the train"
    )
    assert f"loss {min(losses):.4f}, accuracy {accuracy(watched):.4f}" in second


@pytest.mark.parametrize("method", METHODS)
def test_every_command_works_with_every_method(run, flowers, tmp_path, method):
    few = ["--set", "samples=3"] if METHODS.get(method).is_stochastic else []
    file = tmp_path / "run" / "model.safetensors"
    words = ("train", flowers, "--out", tmp_path / "run", "--method", method, "--epochs", 3, *few)
    code, out, err = run(*words)
    assert code == 0
    choice, *epochs, calibration, card = err.splitlines()
    assert "trained from the start" in choice
    assert "no temperature and no trust: 120 samples are too few" in calibration
    assert "report.html: the model card" in card
    assert all(line.startswith(f"{method}: epoch ") for line in epochs)
    assert len(epochs) == 3 * METHODS.get(method)().trainings
    assert "held-out accuracy" in out
    code, out, _ = run("evaluate", file, "--data", flowers, "--json")
    assert code == 0
    assert 0 <= json.loads(out)["accuracy"] <= 1
    code, out, _ = run("predict", file, flowers, "--json")
    assert code == 0
    assert len(out.splitlines()) == 150
    code, out, _ = run("threshold", file, "--data", "held-out", "--coverage", 0.5)
    assert code == 0
    code, _, err = run("export", file, "--program", tmp_path / "model.pt2")
    assert code == int(METHODS.get(method).is_stochastic)
    assert (tmp_path / "model.pt2").exists() is not METHODS.get(method).is_stochastic
    assert ("draws at random" in err) is METHODS.get(method).is_stochastic


@pytest.fixture
def clouds(tmp_path):
    """A table of two classes, and another drawn like it."""
    paths = []
    for seed in range(2):
        generator = np.random.default_rng(seed)
        labels = np.arange(700) % 2
        rows = generator.normal(size=(700, 3)) + 3 * labels[:, None]
        lines = ["x,y,z,label"]
        for row, label in zip(rows, labels, strict=True):
            lines.append(",".join(f"{value:.4f}" for value in row) + f",{'ab'[label]}")
        path = tmp_path / f"clouds{seed}.csv"
        path.write_text("\n".join(lines) + "\n")
        paths.append(path)
    return paths


def test_train_calibrates_and_says_so(run, clouds, tmp_path):
    words = ("train", clouds[0], "--out", tmp_path / "run", "--epochs", 3)
    code, _, err = run(*words)
    assert code == 0
    assert "56 training inputs set aside for calibration: trust by the distance to Gaussians of 2" in err
    assert "temperature scale" in err
    (tmp_path / "far.csv").write_text("x,y,z\n900,-900,900\n")
    code, out, _ = run("predict", tmp_path / "run", tmp_path / "far.csv", "--json")
    record = json.loads(out)
    assert record["answer"] == "I do not know"
    assert record["p_value"] == pytest.approx(1 / 57)
    assert "Fitted after training" in (tmp_path / "run" / "card.md").read_text()
    # The same again changes nothing, and keeps a rule that was set meanwhile.
    assert run("threshold", tmp_path / "run", "--data", clouds[1], "--coverage", 0.5)[0] == 0
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    assert run(*words)[0] == 0
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before


def test_posthoc_can_be_left_out(run, clouds, tmp_path):
    words = ("train", clouds[0], "--out", tmp_path / "run", "--epochs", 1)
    code, _, err = run(*words, "--posthoc", "none")
    assert code == 0
    assert "calibration" not in err
    code, _, err = run(*words, "--posthoc", "some")
    assert code == 1
    assert "--posthoc must be all, temperature, trust or none, got 'some'" in err


def test_an_existing_model_is_calibrated(run, clouds, tmp_path):
    assert run("train", clouds[0], "--out", tmp_path / "run", "--epochs", 2, "--posthoc", "none")[0] == 0
    assert run("threshold", tmp_path / "run", "--data", clouds[1], "--coverage", 0.5)[0] == 0
    code, _, err = run("calibrate", tmp_path / "run", "--data", clouds[1])
    assert code == 1
    assert "--training must name what the model was trained on" in err
    code, out, err = run("calibrate", tmp_path / "run", "--data", clouds[1], "--training", clouds[0])
    assert code == 0
    assert "the rule that the model had was taken away" in err
    assert "trust: by the distance to Gaussians of 2 classes, measured on 700 inputs" in out
    code, out, _ = run("calibrate", tmp_path / "run", "--data", clouds[1], "--posthoc", "temperature")
    assert code == 0
    assert "trust" not in out
    assert run("calibrate", tmp_path / "run", "--data", clouds[1], "--posthoc", "none")[1].endswith(
        "no temperature, no trust\n"
    )


def test_a_model_is_calibrated_with_what_train_held_out(run, clouds, tmp_path):
    assert run("train", clouds[0], "--out", tmp_path / "run", "--epochs", 2, "--posthoc", "none")[0] == 0
    code, out, _ = run("calibrate", tmp_path / "run", "--data", "held-out", "--training", clouds[0])
    assert code == 0
    assert "by the distance to Gaussians of 2 classes, measured on 140 inputs" in out
    # The held-out part is no part of what distances are measured to: known inputs stay usual.
    code, out, _ = run("predict", tmp_path / "run", clouds[1], "--json")
    p_values = np.array([json.loads(line)["p_value"] for line in out.splitlines()])
    assert np.mean(p_values <= 0.1) < 0.2
    # No promise from the data that temperature and trust were fitted to; others are taken.
    code, _, err = run("threshold", tmp_path / "run", "--data", "held-out", "--coverage", 0.5)
    assert code == 1
    assert "held-out: temperature and trust of the model were fitted to these data" in err
    assert run("sets", tmp_path / "run", "--data", clouds[1])[0] == 0
    assert run("calibrate", tmp_path / "run", "--data", "held-out", "--posthoc", "temperature")[0] == 0


def changed(path, source, change):
    """A copy of a table whose rows, without the header, are changed."""
    header, *rows = source.read_text().splitlines()
    path.write_text("\n".join([header, *change(rows)]) + "\n")
    return path


def of_other_classes(rows):
    return [row[:-1] + {"a": "c", "b": "d"}[row[-1]] for row in rows]


def with_nan(rows):
    return [*rows[:-1], "nan,inf,1.0,a"]


def test_calibration_data_that_do_not_fit_are_refused_and_the_model_stays(run, clouds, tmp_path):
    assert run("train", clouds[0], "--out", tmp_path / "run", "--epochs", 1, "--posthoc", "none")[0] == 0
    file = tmp_path / "run" / "model.safetensors"
    before = file.read_bytes()
    refused = {
        "other.csv": (of_other_classes, "classes that the model never saw: c, d"),
        "few.csv": (lambda rows: rows[:20], "it needs 50 held-out inputs, got 20"),
        "nan.csv": (with_nan, "nan"),
    }
    for name, (change, reason) in refused.items():
        data = changed(tmp_path / name, clouds[1], change)
        code, out, err = run("calibrate", tmp_path / "run", "--data", data, "--training", clouds[0])
        assert (code, out) == (1, ""), name
        assert reason in err.lower(), err
        assert file.read_bytes() == before, name
    # Training rows that are all the same have no distances; the temperature is fitted all the same.
    same = changed(tmp_path / "same.csv", clouds[0], lambda rows: ["1,1,1,a", "1,1,1,b"] * 50)
    code, out, err = run("calibrate", tmp_path / "run", "--data", clouds[1], "--training", same)
    assert code == 0
    assert "rows that are all the same" in out + err
    assert "trust: by" not in out
    # A single class is no calibration data; that one of several may be absent is tested in tests/inference.
    fitted = file.read_bytes()
    half = changed(tmp_path / "half.csv", clouds[1], lambda rows: [row for row in rows if row[-1] == "a"])
    code, out, err = run("calibrate", tmp_path / "run", "--data", half, "--training", clouds[0])
    assert (code, out) == (1, "")
    assert "half.csv needs two or more classes, got ['a']" in err
    assert file.read_bytes() == fitted


def test_patience_of_members_is_told_for_each(run, flowers, tmp_path):
    words = ("--method", "ensemble", "--set", "num_members=2", "--epochs", 2, "--patience", 2)
    code, out, _ = run("train", flowers, "--out", tmp_path / "run", *words)
    assert code == 0
    assert [line.partition(" of ")[0] for line in out.splitlines()[1:]] == [
        "member 1: kept epoch 2",
        "member 2: kept epoch 2",
    ]


def test_a_damaged_model_does_not_stop_a_training(run, flowers, rows_model):
    whole = rows_model.read_bytes()
    rows_model.write_bytes(whole[:-9])
    assert run("train", flowers, "--out", rows_model.parent, *FEW)[0] == 0
    assert rows_model.read_bytes() == whole


def test_predict_rows_with_labels_or_without(run, flowers, rows_model, tmp_path):
    X = load_iris().data
    np.savez(tmp_path / "some.npz", features=X[:3])
    (tmp_path / "bare.csv").write_text("a,b,c,d\n" + ",".join(map(str, X[140])) + "\n")
    code, out, _ = run("predict", rows_model, flowers, tmp_path / "some.npz", tmp_path / "bare.csv", "--json")
    rows = {row["name"]: row for row in map(json.loads, out.splitlines())}
    assert code == 0
    assert len(rows) == 154
    expected = TrainedModel.load(rows_model).predict(torch.from_numpy(X))
    names = np.array(["setosa", "versicolor", "virginica"])[expected.labels.numpy()]
    assert [rows[f"{flowers}:{number}"]["best"] for number in range(1, 151)] == names.tolist()
    doubt = [rows[f"{flowers}:{number}"]["uncertainty"] for number in range(1, 151)]
    np.testing.assert_allclose(doubt, expected.uncertainty.numpy(), atol=1e-4)
    shares = [rows[f"{flowers}:{number}"]["probabilities"] for number in range(1, 151)]
    np.testing.assert_allclose(shares, expected.probabilities.numpy(), atol=1e-4)
    for place, same in (("some.npz:2", 2), ("bare.csv:1", 141)):
        found, known = rows[f"{tmp_path / place}"], rows[f"{flowers}:{same}"]
        assert found.pop("probabilities") == pytest.approx(known["probabilities"], abs=1e-6)
        assert (found["best"], found["answer"]) == (known["best"], known["answer"])


def test_predict_images_of_an_npz(run, model, photos, tmp_path):
    pictures = open_source(photos).labelled()
    np.savez(tmp_path / "p.npz", images=pictures.images[:2, 0].numpy())
    first = photos / pictures.classes[0] / "0.png"
    out = run("predict", model, tmp_path / "p.npz", first, "--json")[1]
    one, two, again = map(json.loads, out.splitlines())
    assert [one["name"], two["name"]] == [f"{tmp_path / 'p.npz'}:1", f"{tmp_path / 'p.npz'}:2"]
    assert one | {"name": ""} == again | {"name": ""}


def test_predict_in_three_forms(run, model, photos):
    code, out, _ = run("predict", model, photos / "one", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert len(rows) == 40
    assert sum(row["best"] == "one" for row in rows) > 35
    assert all(row["answer"] in ("one", "two", "zero", "I do not know") for row in rows)
    code, out, _ = run("predict", model, photos / "one" / "0.png", photos / "two" / "1.png", "--csv")
    table = list(csv.DictReader(io.StringIO(out)))
    assert [row["name"] for row in table] == [str(photos / "one" / "0.png"), str(photos / "two" / "1.png")]
    code, out, err = run("predict", model, photos / "zero" / "0.png")
    assert code == 0
    assert "uncertainty" in out
    assert err.startswith(f"{model} has no threshold yet and names a class wherever there is any evidence.")
    assert f"nescio threshold {model} --data held-out --max-error 0.05" in err


@pytest.mark.parametrize("form", ["folder", "files"])
def test_what_is_no_picture_has_an_error_and_the_rest_is_answered(run, model, photos, tmp_path, form):
    shutil.copytree(photos / "zero", tmp_path / "new")
    (tmp_path / "new" / "text.png").write_text("text")
    (tmp_path / "new" / ".hidden.png").write_text("text")
    files = [tmp_path / "new"]
    if form == "files":
        files = sorted(path for path in files[0].iterdir() if path.name[0] != ".")
    code, out, err = run("predict", model, *files, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, err, len(rows)) == (1, "", 41)
    assert [row["name"] for row in rows if row["error"]] == [str(tmp_path / "new" / "text.png")]
    assert rows[-1]["error"] == "text.png is not a PNG, JPEG, BMP or WebP picture"
    assert {key for key, value in rows[-1].items() if value is not None} == {"name", "error"}
    code, out, _ = run("predict", model, *files)
    assert code == 1
    assert "text.png is not a PNG, JPEG, BMP or WebP picture" in out
    for suffix in ("jsonl", "csv", "parquet"):
        code, out, _ = run("predict", model, *files, "--out", tmp_path / f"all.{suffix}")
        assert code == 1
        assert out == f"{tmp_path / 'all'}.{suffix}: 41 inputs, 1 of them without an answer (column error)\n"
    assert [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()] == rows


def test_a_piped_table_is_not_folded(run, model, photos, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    out = run("predict", model, photos / "zero")[1]
    assert sum(str(photos / "zero") in line for line in out.splitlines()) == 40


def test_models_side_by_side(run, model, photos):
    picture = photos / "one" / "0.png"
    code, out, _ = run("predict", f"a={model}", f"b={model.parent}", picture, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, [row.pop("model") for row in rows]) == (0, ["a", "b"])
    assert rows[0] == rows[1]
    assert rows[0]["name"] == str(picture)
    code, out, _ = run("evaluate", f"a={model}", f"b={model.parent}", "--data", photos, "--json")
    results = json.loads(out)
    assert (code, list(results)) == (0, ["a", "b"])
    assert results["a"] == results["b"] == json.loads(run("evaluate", model, "--data", photos, "--json")[1])
    assert "  measure" in run("evaluate", f"a={model}", f"b={model}", "--data", photos)[1]
    code, _, err = run("evaluate", model, model, "--data", photos)
    assert code == 1
    assert "two models are named model: " in err
    code, _, err = run("predict", f"a={model}", f"b={model}", picture, "--out", "x.csv")
    assert (code, err) == (1, "error: --out takes one model; call it once for each\n")


@pytest.mark.parametrize("order", [("edl", "softmax"), ("softmax", "edl")])
def test_an_evidential_model_beside_softmax(capsys, order):
    measured = {
        "edl": {"accuracy": 0.5, "ood": {"entropy_auroc": 0.75, "uncertainty_auroc": 0.875}},
        "softmax": {"accuracy": 0.25, "ood": {"entropy_auroc": 0.625}},
    }
    _print_measures({name: measured[name] for name in order})
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    expected = {"edl": "0.8750", "softmax": "-"}
    assert ["uncertainty_auroc", *(expected[name] for name in order)] in lines


def test_the_folder_of_a_run_stands_for_its_model(run, model, photos):
    picture = photos / "one" / "0.png"
    assert run("predict", model.parent, picture, "--json") == run("predict", model, picture, "--json")
    code, _, err = run("predict", photos, picture)
    assert (code, err) == (
        1,
        f"error: {photos} is a folder without a model.safetensors; a run has one once it has ended\n",
    )
    code, _, err = run("predict", model.parent / "checkpoint.safetensors", picture)
    assert code == 1
    assert "checkpoint.safetensors is the checkpoint of a training, not a model" in err


def test_a_label_column_by_its_name(run, flowers, tmp_path):
    lines = flowers.read_text().splitlines()
    header = lines[0].replace("label", "kind")
    moved = [",".join([row.rpartition(",")[2], row.rpartition(",")[0]]) for row in lines[1:]]
    path = tmp_path / "moved.csv"
    path.write_text("\n".join(["kind,a,b,c,d", *moved]))
    assert header == "a,b,c,d,kind"
    out = tmp_path / "run"
    code, _, _ = run("train", path, "--out", out, "--label", "kind", "--epochs", 2)
    assert code == 0
    assert TrainedModel.load(out).classes == ("setosa", "versicolor", "virginica")
    assert TrainedModel.load(out).preprocess.schema.names == ("a", "b", "c", "d")
    code, _, _ = run("evaluate", out, "--data", path, "--label", "kind", "--json")
    assert code == 0
    code, _, err = run("evaluate", out, "--data", path, "--label", "sort")
    assert (code, err) == (1, "error: moved.csv has no column 'sort'; its columns: kind, a, b, c, d\n")


def test_score_says_what_it_is_called_now(run):
    code, out, err = run("score", "m.safetensors", "photos/", "--out", "x.parquet")
    assert (code, out) == (1, "")
    assert err == (
        "error: score is now a part of predict: nescio predict MODEL FILES... --out FILE.parquet\n"
    )


def test_noise_is_not_known_better_than_a_digit(run, model, photos, tmp_path):
    noise = torch.randint(256, (28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    Image.fromarray(noise.numpy()).save(tmp_path / "noise.png")
    rows = run("predict", model, tmp_path / "noise.png", photos / "zero" / "0.png", "--json")[1].splitlines()
    strange, familiar = (json.loads(row)["uncertainty"] for row in rows)
    assert strange > familiar


def test_evaluate_with_out_of_distribution_data(run, model, photos):
    code, out, _ = run("evaluate", model, "--data", photos, "--ood", "letters", "--json")
    result = json.loads(out)
    assert code == 0
    assert result["accuracy"] > 0.8
    assert 0.5 < result["ood"]["entropy_auroc"] <= 1
    code, out, _ = run("evaluate", model, "--data", photos)
    assert code == 0
    assert "accuracy" in out


def test_threshold_is_kept_in_the_model(run, model, photos, unseen):
    code, out, _ = run("threshold", model, "--data", unseen, "--max-error", 0.2, "--confidence", 0.9)
    assert code == 0
    assert "at most 20" in out
    assert TrainedModel.load(model).rule.max_error == 0.2
    assert run("train", photos, "--out", model.parent, "--epochs", 12, "--batch-size", 16)[0] == 0
    assert TrainedModel.load(model).rule.max_error == 0.2  # a training with nothing left to do keeps it


@pytest.mark.parametrize("measure", ["entropy", "max_probability"])
def test_threshold_by_another_measure(run, model, unseen, measure):
    code, _, _ = run("threshold", model, "--data", unseen, "--coverage", 0.5, "--measure", measure)
    assert code == 0
    assert TrainedModel.load(model).rule.measure == measure
    code, _, err = run("threshold", model, "--data", unseen, "--measure", "mood")
    assert code == 1
    assert "measure must be" in err


def test_threshold_by_coverage(run, model, unseen):
    code, out, _ = run("threshold", model, "--data", unseen, "--coverage", 0.5)
    rule = TrainedModel.load(model).rule
    assert code == 0
    assert (rule.target_coverage, rule.held_out_coverage, rule.held_out) == (0.5, 0.5, 120)
    assert "accepts 50% of held-out inputs" in out
    answers = [json.loads(line) for line in run("predict", model, unseen, "--json")[1].splitlines()]
    assert sum(row["answer"] != "I do not know" for row in answers) == 60
    assert run("predict", model, unseen)[2] == ""  # nothing to be said: it has a threshold


@pytest.mark.parametrize("target", [("--max-error", 0.001), ("--risk", 0.001), ()])
def test_a_threshold_out_of_reach_leaves_the_file(run, model, unseen, target):
    assert run("threshold", model, "--data", unseen, "--coverage", 0.8)[0] == 0
    before = model.read_bytes()
    code, out, err = run("threshold", model, "--data", unseen, *target)
    assert (code, out) == (1, "")
    assert "no threshold promises an error of at most" in err
    assert err.endswith(
        f"which answers the surest nine in ten and promises nothing. {model} stays as it was\n"
    )
    assert len(err.splitlines()) == 1
    assert model.read_bytes() == before


def test_sets_are_kept_in_the_model_and_shown(run, model, photos, unseen):
    code, out, err = run("sets", model, "--data", unseen, "--coverage", 0.9, "--score", "raps", "--by-class")
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert first.startswith(
        f"{model}: the set holds the true class of 90% of inputs of each class like the 120 "
    )
    assert second.startswith("for 95% of all draws of so many held-out samples, that share is in truth ")
    sets = TrainedModel.load(model).sets
    assert (sets.score, sets.coverage, sets.by_class, sets.held_out, sets.fewest) == (
        "raps",
        0.9,
        True,
        120,
        40,
    )
    assert run("train", photos, "--out", model.parent, "--epochs", 12, "--batch-size", 16)[0] == 0
    assert TrainedModel.load(model).sets == sets  # a training with nothing left to do keeps them
    answers = [json.loads(line) for line in run("predict", model, unseen, "--json")[1].splitlines()]
    truth = [Path(answer["name"]).parent.name for answer in answers]
    covered = [name in answer["set"] for name, answer in zip(truth, answers, strict=True)]
    assert sum(covered) >= 108
    assert all(answer["set"][0] == answer["best"] for answer in answers if len(answer["set"]) > 1)
    table = run("predict", model, unseen)[1]
    assert table.split("\n")[1].split()[-1] == "set", table
    cells = run("predict", model, unseen, "--csv")[1].splitlines()
    assert cells[0].endswith(",set,error")
    assert ',"[""' in cells[1]


def test_an_empty_set_is_said(run, rows_model, flowers):
    code, out, _ = run("sets", rows_model, "--data", "held-out", "--coverage", 0.5, "--allow-empty")
    assert code == 0
    assert "which are unlike all classes" in out
    assert "none: unlike all classes" in run("predict", rows_model, flowers)[1]
    run("sets", rows_model, "--data", "held-out", "--coverage", 0.5)
    assert "none: unlike all classes" not in run("predict", rows_model, flowers)[1]


@pytest.mark.parametrize("command", [("threshold", "--max-error", 0.3), ("sets", "--coverage", 0.8)])
def test_training_data_are_noticed_and_refused(run, model, photos, command):
    before = model.read_bytes()
    code, out, err = run(command[0], model, "--data", photos, *command[1:])
    assert (code, out) == (1, "")
    assert f"{photos}: 80% of these data were trained on, and no promise made from them would hold. " in err
    assert err.endswith("or --data held-out for the part that `nescio train` held out\n")
    assert model.read_bytes() == before


def test_evaluate_warns_of_training_data(run, model, photos, unseen):
    code, out, err = run("evaluate", model, "--data", photos)
    assert code == 0
    assert "accuracy" in out
    assert "80.0% of these data were trained on; what is measured on them is too good" in err
    assert "trained on" not in run("evaluate", model, "--data", unseen)[2]
    code, out, err = run("evaluate", model, "--data", "held-out", "--json")
    assert (code, err) == (0, "")
    assert 0.8 < json.loads(out)["accuracy"] <= 1


def test_the_held_out_part_of_training_is_found_again(run, model, rows_model):
    code, out, _ = run("threshold", model, "--data", "held-out", "--max-error", 0.3)
    assert code == 0
    assert TrainedModel.load(model).rule.held_out == 24
    code, out, _ = run("sets", rows_model, "--data", "held-out", "--coverage", 0.8)
    assert code == 0
    assert "like the 30 held-out ones" in out


def test_a_held_out_part_that_is_gone_or_changed_is_refused(run, flowers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "table.csv"
    table.write_text(flowers.read_text())
    train("table.csv", "--out", "run", *FEW)
    assert run("threshold", "run", "--data", "held-out", "--coverage", 0.5)[0] == 0
    lines = table.read_text().splitlines()
    table.write_text("\n".join([*lines[:-1], lines[1]]))
    code, _, err = run("threshold", "run", "--data", "held-out", "--coverage", 0.5)
    assert code == 1
    assert "held-out can't be had again: table.csv has changed since the training. Give other data" in err
    table.unlink()
    code, _, err = run("sets", "run", "--data", "held-out")
    assert code == 1
    assert "held-out was a part of table.csv, which is not here; call it from the folder in which" in err
    former = TrainedModel.load("run")
    training = {name: value for name, value in former.training.items() if name != "held_out"}
    replace(former, training=training, seen=None).save("former.safetensors")
    code, _, err = run("sets", "former.safetensors", "--data", "held-out")
    assert code == 1
    assert "held-out is not known: the model file does not say what was held out" in err
    # From before there were digests: nothing is noticed, and nothing refused.
    assert run("threshold", "former.safetensors", "--data", flowers, "--coverage", 0.5)[0] == 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--coverage", 0.999), "a coverage of 99.9% needs 999 held-out samples or more, got 120."),
        (
            ("--coverage", 0.99, "--by-class"),
            "of each class needs 99 held-out samples of each: one has 40, two has 40, zero has 40.",
        ),
        (("--coverage", 1), "--coverage must be between 0 and 1, got 1"),
        (("--score", "margin"), "score must be one of lac, aps, raps, got 'margin'"),
        (("--randomized",), "randomized is for aps and raps"),
    ],
)
def test_sets_out_of_reach_leave_the_file(run, model, unseen, words, reason):
    before = model.read_bytes()
    code, out, err = run("sets", model, "--data", unseen, *words)
    assert (code, out) == (1, "")
    assert reason in err
    assert len(err.splitlines()) == 1
    assert model.read_bytes() == before


@pytest.mark.filterwarnings("ignore")
def test_export_says_what_it_wrote_and_nothing_else(run, model, tmp_path, caplog):
    onnx, program = tmp_path / "m.onnx", tmp_path / "m.pt2"
    code, out, err = run("export", model, "--onnx", onnx, "--program", program)
    assert (code, out, err) == (0, f"{onnx}: written\n{program}: written\n", "")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert min(onnx.stat().st_size, program.stat().st_size) > 1000


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            ("train", "imagenet", "--out", "x"),
            "there is no file or folder imagenet, nor a data set of that name",
        ),
        (("train", "digits", "--out", "x", "--method", "magic"), "method must be one of softmax, "),
        (("train", "digits", "--out", "x", "--epochs", "0"), "error: --epochs must be a whole number"),
        (("train", "digits", "--out", "x", "--size", "20"), "error: --size goes with a folder of pictures"),
        (("train", "digits", "--out", "x", "--device", "gpu0"), "device must be one of auto, cpu"),
        (("train", "digits", "--out", "x", "--schedule", "step"), "schedule must be one of cosine, constant"),
        (
            ("train", "digits", "--out", "x", "--network", "mlp"),
            "the encoder mlp takes rows, got images of shape",
        ),
        (("train", "digits", "--out", "x", "--network", '{"filters": [0, 1]}'), "filters must be a whole"),
        (
            ("train", "digits", "--out", "x", "--network", '{"num_classes": 9}'),
            "network must give logits (N, 10)",
        ),
        (
            ("train", "digits", "--out", "x", "--network", '{"in_channels": 3}'),
            "network takes inputs (3, 28, 28)",
        ),
        (
            ("train", "digits", "--out", "x", "--set", "evidense=relu"),
            "edl has no setting 'evidense'; it has risk, evidence, ",
        ),
        (("train", "EMPTY", "--out", "x"), "needs two or more class folders, got none"),
        (("train", "one.npz", "--out", "x"), "one.npz needs two or more classes, got ['3']"),
        (("train", "named.npz", "--out", "x"), "labels must be of two or more classes, got b only"),
        (("train", "nan.npz", "--out", "x"), "images must be uint8 0..255, got float32 with NaN"),
        (("train", "two.csv", "--out", "x"), "two has 2 samples, too few to hold 20% of them out"),
        (("train", "five.csv", "--out", "x", "--patience", "1"), "five has 4 samples, too few to hold 10%"),
        (("export", "MODEL"), "say what to write"),
        (
            ("export", "MODEL", "--onnx", "none/m.onnx"),
            "none/m.onnx can't be written: there is no folder none",
        ),
        (("export", "MODEL", "--program", "EMPTY"), "empty can't be written: it is a folder"),
        (("predict", "none.safetensors", "x.png"), "there is no file none.safetensors"),
        (("predict", "MODEL", "missing.png"), "there is no file or folder missing.png"),
        (("predict", "MODEL", "two.csv", "--json", "--csv"), "--json, --csv and --out are three forms of"),
        (("predict", "MODEL", "two.csv", "--on", "ray"), "--on goes with --out"),
        (("predict", "MODEL", "two.csv", "--out", "x.txt"), "--out must end in .parquet, .csv, .jsonl"),
        (("predict", "a=none.safetensors", "b=two.csv"), "say what to predict"),
        (("evaluate", "MODEL", "--data", "digits"), "classes that the model never saw: 0, 1, 2"),
        (
            ("evaluate", "MODEL", "--data", "large.npz"),
            "large.npz:1: must be 1 x 28 x 28 numbers, got 32 x 32",
        ),
        (("evaluate", "MODEL", "--data", "colour.npz"), "colour.npz:1: must be 1 x 28 x 28 numbers, got"),
        (("evaluate", "MODEL", "--data", "EMPTY"), "needs two or more class folders, got none"),
        (("threshold", "MODEL", "--data", "digits"), "classes that the model never saw: 0, 1, 2"),
        (
            ("threshold", "MODEL", "--data", "digits", "--coverage", "1", "--max-error", "1"),
            "goes without --max-error",
        ),
        (
            ("threshold", "MODEL", "--data", "PHOTOS", "--coverage", "2"),
            "--coverage must be above 0 and at most 1",
        ),
    ],
)
def test_errors_are_one_line(run, model, photos, tmp_path, monkeypatch, words, reason):
    monkeypatch.chdir(tmp_path)
    bad_files(tmp_path)
    before = model.read_bytes()
    real = {"MODEL": model, "EMPTY": "empty", "PHOTOS": photos}
    code, out, err = run(*(real.get(word, word) for word in words))
    assert (code, out) == (1, "")
    *before_it, error = err.splitlines()
    assert reason in error
    # What was chosen for the data may have been said already.
    assert before_it == [] or before_it[0].endswith("trained from the start")
    assert len(before_it) <= 1
    assert not (tmp_path / "x").exists()
    assert model.read_bytes() == before


def bad_files(folder):
    (folder / "empty").mkdir()
    (folder / "two.csv").write_text("a,label\n1,x\n2,y\n")
    (folder / "five.csv").write_text("a,label\n1,x\n2,y\n3,x\n4,y\n5,x\n")
    images = np.zeros((2, 28, 28), dtype=np.uint8)
    np.savez(folder / "one.npz", images=images, labels=[3, 3])
    np.savez(folder / "named.npz", images=images, labels=[1, 1], classes=["a", "b"])
    np.savez(folder / "nan.npz", images=np.full((2, 28, 28), np.nan, dtype=np.float32), labels=[0, 1])
    names = {"labels": [0, 1], "classes": ["zero", "one"]}
    np.savez(folder / "large.npz", images=np.zeros((2, 32, 32), dtype=np.uint8), **names)
    np.savez(folder / "colour.npz", images=np.zeros((2, 28, 28, 3), dtype=np.uint8), **names)
    np.savez(folder / "none.npz", images=images[:0])


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("empty", "empty holds nothing to read"),
        ("two.csv", "the model takes pictures 1 x 28 x 28, not rows of a table"),
        ("nan.npz", "has a value that is not finite"),
        ("large.npz", "must be 1 x 28 x 28 numbers, got 32 x 32"),
        ("colour.npz", "must be 1 x 28 x 28 numbers, got"),
        ("none.npz", "none.npz: one or more inputs expected, got an array (0, 28, 28)"),
    ],
)
def test_inputs_that_do_not_fit_have_an_error(run, model, tmp_path, monkeypatch, file, reason):
    monkeypatch.chdir(tmp_path)
    bad_files(tmp_path)
    code, out, err = run("predict", model, file, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (1, "")
    assert all(reason in row["error"] for row in rows)
    assert rows[0]["name"] == (file if len(rows) == 1 else f"{file}:1")


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("a.csv", "a.csv, line 2: the model needs the columns c, d"),
        ("two.csv", "two.csv, line 1: 4 columns expected, got 2 columns"),
        ("word.csv", "word.csv, line 2, column d: a finite number expected"),
        ("nan.csv", "a finite number expected that float32 can hold, got 'nan'"),
        ("nan.npz", "has a value that is not finite"),
        ("wide.npz", "must be 4 numbers, got 5"),
        ("bare.npz", "bare.npz must hold images or features, got labels"),
        ("p.png", "the model takes rows of 4 numbers, not pictures"),
    ],
)
def test_rows_that_do_not_fit(run, rows_model, tmp_path, file, reason):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "two.csv").write_text("1,2\n")
    (tmp_path / "word.csv").write_text("a,b,c,d\n1,2,3,four\n")
    (tmp_path / "nan.csv").write_text("a,b,c,d,label\n1,2,3,nan,setosa\n")
    np.savez(tmp_path / "nan.npz", features=np.full((2, 4), np.nan))
    np.savez(tmp_path / "wide.npz", features=np.zeros((2, 5)))
    np.savez(tmp_path / "bare.npz", labels=[0])
    Image.new("L", (4, 4)).save(tmp_path / "p.png")
    code, out, err = run("predict", rows_model, tmp_path / file, "--json")
    assert (code, err) == (1, "")
    assert all(reason in json.loads(line)["error"] for line in out.splitlines())
    assert out


def truncated(path):
    path.write_bytes(path.read_bytes()[:-100])


def edited(path):
    content = path.read_bytes()
    assert content.count(b"zero") > 0
    path.write_bytes(content.replace(b"zero", b"nine"))


def foreign(path):
    save_file({"weight": torch.zeros(2)}, path)


def pickled(path):
    path.write_bytes(pickle.dumps({"weight": [1.0, 2.0]}))


def with_more_classes(path):
    """Whole and well-formed, but for the classes: what a program with a mistake in it could write."""
    tensors, header = read_tensors(path)
    write_tensors(path, tensors, header | {"classes": [*header["classes"], "three"]})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (truncated, "is damaged or no safetensors file"),
        (edited, "is damaged or was edited"),
        (foreign, "was not written by nescio"),
        (pickled, "is damaged or no safetensors file"),
        (with_more_classes, "does not fit together: 4 classes, but a network for 3"),
    ],
)
def test_model_files_that_are_none(run, model, photos, tmp_path, change, reason):
    path = tmp_path / "m.safetensors"
    path.write_bytes(model.read_bytes())
    change(path)
    before = path.read_bytes()
    for words in (
        ("predict", path, photos),
        ("evaluate", path, "--data", photos),
        ("threshold", path, "--data", photos),
        ("export", path, "--onnx", tmp_path / "m.onnx"),
    ):
        code, out, err = run(*words)
        assert (code, out) == (1, "")
        assert reason in err
        assert len(err.splitlines()) == 1
    assert path.read_bytes() == before
    assert not (tmp_path / "m.onnx").exists()


def test_a_column_of_measured_numbers_is_not_taken_for_classes(run, tmp_path):
    rows = "".join(f"{number},{number % 7},{0.37 * number:.2f}\n" for number in range(60))
    (tmp_path / "houses.csv").write_text(f"size,floor,price\n{rows}")
    code, _, err = run("train", tmp_path / "houses.csv", "--out", tmp_path / "run")
    assert code == 1
    assert "the labels were taken from column price, which has 60 different values in 60 rows" in err
    assert "name the column of the labels with --label" in err


def test_where_nothing_can_be_answered_the_first_few_are_shown(run, rows_model, tmp_path):
    for number in range(8):
        (tmp_path / f"{number}.png").write_bytes(b"no picture")
    code, out, _ = run("predict", rows_model, *sorted(tmp_path.glob("*.png")))
    assert code == 1
    lines = out.splitlines()
    assert lines[0] == "none of the 8 inputs can be answered; the first 3:"
    assert len(lines) == 4
    assert lines[1].startswith(f"  {tmp_path / '0.png'}: ")
    code, out, _ = run("predict", rows_model, *sorted(tmp_path.glob("*.png")), "--json")
    assert code == 1
    assert len(out.splitlines()) == 8


def test_metrics_go_where_they_are_asked_to(run, photos, tmp_path):
    code, _, err = run("train", photos, "--out", tmp_path, "--log", "excel")
    assert code == 1
    assert "log must be one of tensorboard, csv, mlflow, wandb, got 'excel'" in err
    code, _, _ = run(
        "train",
        photos,
        "--out",
        tmp_path,
        "--epochs",
        2,
        "--posthoc",
        "none",
        "--log",
        "csv",
        "--encoder",
        "lenet",
    )
    assert code == 0
    rows = (tmp_path / "metrics.csv").read_text().splitlines()
    assert rows[0].startswith("epoch,loss,accuracy,uncertainty")
    assert len(rows) == 3
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 2
