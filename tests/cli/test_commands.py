"""What all commands have in common: they work with every method, and bad input is one line."""

import json
import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from nescio._files import read_tensors, write_tensors
from nescio.methods import METHODS

NO_FOLDER = "--data-dir must name a folder; there is no folder none"


@pytest.mark.parametrize("method", METHODS)
def test_every_command_works_with_every_method(run, flowers, tmp_path, method):
    few = ["--set", "samples=3"] if METHODS.get(method).is_stochastic else []
    file = tmp_path / "run" / "model.safetensors"
    words = ("train", flowers, "--out", tmp_path / "run", "--method", method, "--epochs", 3, *few)
    code, out, err = run(*words)
    assert code == 0
    choice, announced, *epochs, calibration, card = err.splitlines()
    assert "trained from the start" in choice
    assert announced == "Then, for the temperature, 5 more networks, each without a part of the data"
    assert calibration.startswith("trust by the distance to 120 training inputs")
    assert "temperature scale " in calibration
    assert calibration.endswith("fitted to 5 networks, each trained without a part of the data")
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
    # That the others can be exported is a part of the contract of methods.
    if METHODS.get(method).is_stochastic:
        code, _, err = run("export", file, "--program", tmp_path / "model.pt2")
        assert code == 1
        assert "draws at random" in err
        assert not (tmp_path / "model.pt2").exists()


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
        (("train", "one.npz", "--out", "x"), "one.npz: labels must be of two or more classes, got 3 only"),
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
        (("train", "digits", "--out", "x", "--data-dir", "none"), NO_FOLDER),
        (("evaluate", "MODEL", "--data", "digits", "--data-dir", "none"), NO_FOLDER),
        (("calibrate", "MODEL", "--data", "digits", "--data-dir", "none"), NO_FOLDER),
        (
            ("calibrate", "MODEL", "--data", "letters", "--training", "digits", "--data-dir", "none"),
            NO_FOLDER,
        ),
        (("threshold", "MODEL", "--data", "digits", "--data-dir", "none"), NO_FOLDER),
        (("sets", "MODEL", "--data", "digits", "--data-dir", "none"), NO_FOLDER),
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
        ("p.png", "the model takes rows of a table with the columns a, b, c, d, not pictures"),
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
