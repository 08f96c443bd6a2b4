"""The tests of a package that extends nescio; tests/test_plugin.py installs it and runs them."""

import io
import json
import subprocess
import sys
import urllib.request
from contextlib import redirect_stdout
from importlib.metadata import entry_points

import numpy as np
import pytest
import torch
from nescio_example.encoder import FiltersSpec
from nescio_example.method import Hinge

import nescio
from nescio.cli.app import main
from nescio.encoders import MLPSpec, make_encoder
from nescio.methods import METHODS
from nescio.testing import ENCODER_CHECKS, METHOD_CHECKS

START = [sys.executable, "-c", "from nescio.cli.app import main; main()"]
SPEC = FiltersSpec((1, 16, 16), num_classes=2)


def name_of(check):
    return check.__name__


def run(*words):
    """The command line, in this process: torch is loaded, and the package is found as in any other."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said):
        patch.setattr(sys, "argv", ["nescio", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    return said.getvalue()


def run_alone(*words):
    """The command line, in a process of its own."""
    done = subprocess.run([*START, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pictures of stripes across and down."""
    folder = tmp_path_factory.mktemp("pictures")
    generator = np.random.default_rng(0)
    labels = np.arange(60) % 2
    images = generator.integers(100, size=(60, 16, 16)).astype(np.uint8)
    images[labels == 0, ::4] += 150
    images[labels == 1, :, ::4] += 150
    np.savez(folder / "stripes.npz", images=images, labels=labels, classes=np.array(["across", "down"]))
    return folder


@pytest.fixture(scope="module")
def model_path(folder):
    run("train", folder / "stripes.npz", "--out", folder / "run", "--method", "hinge",
        "--network", "filters", "--epochs", 40, "--batch-size", 8, "--learning-rate", 0.02,
        "--set", "margin=2")  # fmt: skip
    return folder / "run" / "model.safetensors"


def test_nescio_finds_them_and_did_not_know_them():
    assert list(METHODS)[-1] == "hinge"
    assert nescio.make_method("hinge", margin=2.0) == Hinge(2.0)
    assert make_encoder("filters", (3, 9, 9), 4) == FiltersSpec((3, 9, 9), 4)
    assert {point.name for point in entry_points(group="nescio.methods")} == {"hinge"}


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=name_of)
def test_the_method_keeps_the_contract(check):
    check(Hinge(), MLPSpec(5, 2, hidden=(8,)))


@pytest.mark.parametrize("check", ENCODER_CHECKS, ids=name_of)
def test_the_encoder_keeps_the_contract(check):
    check(SPEC)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_trains_the_encoder_or_says_why_not(name):
    method = nescio.make_method(name)
    encoder = method.default_encoder(SPEC)
    if method.requires <= SPEC.abilities:
        assert method.build(encoder)(torch.zeros(2, 1, 16, 16)).shape == (2, 2)
        return
    with pytest.raises(nescio.InputError, match=f"the method {name} needs an encoder with .* filters has"):
        method.build(encoder)


def test_train_save_load_predict_evaluate(folder, model_path):
    model = nescio.TrainedModel.load(model_path)
    assert (model.method, model.network.kind) == (Hinge(2), "filters")
    evaluated = json.loads(run("evaluate", model_path, "--data", folder / "stripes.npz", "--json"))
    assert evaluated["accuracy"] > 0.9
    lines = run("predict", model_path, folder / "stripes.npz", "--json").splitlines()
    assert len(lines) == 60


@pytest.fixture(scope="module")
def rows_path(folder):
    """Two clouds of numbers, as lines of JSON."""
    generator = np.random.default_rng(0)
    lines = []
    for index in range(200):
        label = ("low", "high")[index % 2]
        numbers = generator.normal(1.2 * (index % 2), 1.0, size=3).tolist()
        lines.append(json.dumps({"numbers": numbers, "label": label}))
    (folder / "rows.numbers").write_text("\n".join(lines))
    return folder / "rows.numbers"


@pytest.fixture(scope="module")
def rows_model(folder, rows_path):
    run("train", rows_path, "--out", folder / "rows", "--method", "hinge", "--epochs", 5)
    return folder / "rows" / "model.safetensors"


def test_the_source_is_trained_on_predicted_and_evaluated(rows_path, rows_model):
    model = nescio.TrainedModel.load(rows_model)
    assert (model.classes, model.input_shape) == (("high", "low"), (3,))
    records = [json.loads(line) for line in run("predict", rows_model, rows_path, "--json").splitlines()]
    assert [record["name"] for record in records[:2]] == ["rows:1", "rows:2"]
    data = nescio.data.open_source(rows_path).labelled()
    expected = model.predict(data.inputs)
    found = [record["uncertainty"] for record in records]
    assert found == pytest.approx(expected.uncertainty.tolist(), abs=1e-3)
    evaluated = json.loads(run("evaluate", rows_model, "--data", rows_path, "--json"))
    accuracy = float((expected.labels == model.labels_of(data)).float().mean())
    assert evaluated["accuracy"] == pytest.approx(accuracy)


def test_the_measure_decides_when_to_abstain(rows_path, rows_model, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(rows_model.read_bytes())
    run("threshold", path, "--data", "held-out", "--coverage", 0.5, "--measure", "gap")
    model = nescio.TrainedModel.load(path)
    assert model.rule.measure == "gap"
    prediction = model.predict(nescio.data.open_source(rows_path).labelled().inputs)
    first, second = prediction.probabilities.sort(descending=True).values.unbind(1)
    accepted = model.accepts(prediction)
    assert accepted.float().mean().item() == pytest.approx(0.5, abs=0.15)
    assert (first - second)[accepted].min() >= (first - second)[~accepted].max()


def test_the_measure_is_among_those_of_an_evaluation(rows_path, rows_model):
    evaluated = json.loads(run("evaluate", rows_model, "--data", rows_path, "--ood", rows_path, "--json"))
    assert any(name.startswith("gap") for name in {**evaluated, **evaluated["ood"]})


def test_the_command_line_lists_them():
    assert "hinge" in run_alone("methods")
    assert "filters" in run("train", "--help")


def test_the_service_answers_with_them(folder, model_path):
    words = [*START, "serve", str(model_path), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().split(" at ")[1].split()[0]
            images = np.load(folder / "stripes.npz")["images"][:2].tolist()
            request = urllib.request.Request(
                f"{address}/v1/opinions",
                json.dumps({"inputs": images}).encode(),
                {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request) as response:
                (result,) = json.load(response)["results"]
        finally:
            process.terminate()
    expected = nescio.TrainedModel.load(model_path).predict(torch.tensor(images, dtype=torch.uint8)[:, None])
    found = [one["probabilities"] for one in result["opinions"]]
    for one, row in zip(found, expected.probabilities.tolist(), strict=True):
        assert list(one.values() if isinstance(one, dict) else one) == pytest.approx(row, abs=1e-4)
