"""Runs that the tests of several commands use: digits as photos, measured flowers, clouds of points."""

import shutil
import sys

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_iris

from nescio.cli import app
from nescio.data import load

FEW = ("--epochs", 12, "--batch-size", 8, "--learning-rate", 0.01)


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*words):
        monkeypatch.setattr(sys, "argv", ["nescio", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            app.main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return call


def class_folders(folder, chosen):
    """Some of the digits 0, 1 and 2, in a folder each."""
    digits = load("digits").only(["0", "1", "2"])
    for label, name in enumerate(("zero", "one", "two")):
        (folder / name).mkdir()
        for index, image in enumerate(digits.images[digits.labels == label][chosen]):
            Image.fromarray(image[0].numpy()).save(folder / name / f"{index}.png")
    return folder


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """40 of each class."""
    return class_folders(tmp_path_factory.mktemp("photos"), slice(40))


@pytest.fixture(scope="session")
def unseen(tmp_path_factory):
    """40 others of each class."""
    return class_folders(tmp_path_factory.mktemp("unseen"), slice(40, 80))


def train(*words):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["nescio", "train", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            app.main()
    assert not ended.value.code


@pytest.fixture(scope="session")
def photos_run(photos, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    train(photos, "--out", out, "--epochs", 12, "--batch-size", 16)
    return out


@pytest.fixture
def model(photos_run, tmp_path_factory):
    """In a run of its own: a test may change it."""
    return shutil.copytree(photos_run, tmp_path_factory.mktemp("model") / "run") / "model.safetensors"


@pytest.fixture(scope="session")
def flowers(tmp_path_factory):
    """A .csv of measured flowers, of three kinds."""
    X, y = load_iris(return_X_y=True)
    path = tmp_path_factory.mktemp("flowers") / "flowers.csv"
    names = ["setosa", "versicolor", "virginica"]
    lines = [",".join(map(str, [*row, names[label]])) for row, label in zip(X, y, strict=True)]
    path.write_text("\n".join(["a,b,c,d,label", *lines]))
    return path


@pytest.fixture(scope="session")
def rows_run(flowers, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "rows"
    train(flowers, "--out", out, *FEW)
    return out


@pytest.fixture
def rows_model(rows_run, tmp_path):
    """In a run of its own, to spoil."""
    return shutil.copytree(rows_run, tmp_path / "rows") / "model.safetensors"


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
