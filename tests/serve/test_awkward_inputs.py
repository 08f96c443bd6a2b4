"""The awkward inputs of tests/inference, over HTTP: the records of `nescio predict`, to the last field."""

import io
import json

import numpy as np
import pytest
import torch
from tests.inference.test_awkward_inputs import files_of, image_arrays, pictures, row_arrays, saved, written

from nescio.data import Table
from nescio.encoders import LeNetSpec, MLPSpec
from nescio.inference.bulk import predict_to_file
from nescio.inference.model import TrainedModel
from nescio.inference.records import predict_records
from nescio.methods import EDL, Softmax
from nescio.serve.app import create_app
from nescio.training import TrainingSettings

GREY = LeNetSpec(1, 16, 16, 3, filters=(4, 4), hidden=8)
COLOUR = LeNetSpec(3, 16, 16, 3, filters=(4, 4), hidden=8)
JSON = {"content-type": "application/json"}


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A model of this network and method, in a folder that is the current one."""
    monkeypatch.chdir(tmp_path)

    def make(spec, method):
        return TrainedModel.load(saved(tmp_path / "model.safetensors", spec, method))

    return make


@pytest.mark.parametrize(("spec", "method"), [(GREY, EDL()), (COLOUR, Softmax())])
def test_pictures(ask, model, tmp_path, spec, method):
    trained = model(spec, method)
    written(tmp_path / "pictures", pictures())
    names = files_of(tmp_path, "pictures")
    files = [("files", (name, (tmp_path / name).read_bytes(), "image/png")) for name in names]
    response = ask("POST", "/v1/opinions", app=create_app({"model": trained}), files=files)
    assert response.status_code == 200
    assert response.json()["results"][0]["opinions"] == predict_records(trained, names)


def readable(files):
    """The arrays of numbers in these files, by name."""
    found = {}
    for name, content in files.items():
        if name.endswith(".npy") and content.startswith(b"\x93NUMPY"):
            found[name] = np.load(io.BytesIO(content))
        elif name.endswith(".npz") and name != "broken.npz":
            arrays = np.load(io.BytesIO(content))
            first = arrays[arrays.files[0]]
            if arrays.files[0] != "labels" and first.dtype.kind in "uif" and len(first):
                found[name] = first
    return found


def check_arrays(ask, trained, folder, files):
    """Each file's array as JSON, against the records of the file."""
    written(folder, files)
    app = create_app({"model": trained})
    arrays = readable(files)
    for name, values in arrays.items():
        expected = predict_records(trained, str(folder / name))
        body = json.dumps({"inputs": values.tolist()})
        response = ask("POST", "/v1/opinions", app=app, content=body, headers=JSON)
        if not np.isfinite(values).all():
            assert response.status_code == 400, name  # JSON has no such numbers
        elif values.ndim == 1 or (len(expected) == 1 and expected[0]["error"]):
            assert response.status_code == 422, name
            assert values.ndim == 1 or response.json()["error"].endswith(f": {expected[0]['error']}"), name
        else:
            numbered = [record | {"name": str(number)} for number, record in enumerate(expected, start=1)]
            assert response.json()["results"][0]["opinions"] == numbered, name
    return arrays


def test_arrays_of_pixels(ask, model, tmp_path):
    arrays = check_arrays(ask, model(GREY, EDL()), tmp_path / "images", image_arrays())
    assert len(arrays) >= 12


def test_arrays_of_rows(ask, model, tmp_path):
    arrays = check_arrays(ask, model(MLPSpec(3, 3, hidden=(8,)), EDL()), tmp_path / "rows", row_arrays())
    assert len(arrays) == 6


@pytest.mark.parametrize("method", [EDL(), Softmax()])
def test_temperature_and_trust_are_the_same_in_every_form(ask, tmp_path, method):
    """Saved and loaded, by `predict --out`, and over HTTP: known rows, and one that lies far from all."""
    labels = torch.arange(700) % 2
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(700, 3, generator=generator) + 3 * labels[:, None]
    data = Table(rows, labels, ("a", "b"), "clouds")
    settings = TrainingSettings(epochs=2, batch_size=32, device="cpu", precision="float32")
    fitted = TrainedModel.train(data, method, settings=settings, posthoc="all")
    assert fitted.posthoc is not None
    assert fitted.posthoc.trust is not None
    assert fitted.posthoc.temperature is not None
    fitted.save(tmp_path / "model.safetensors")
    asked = np.concatenate([rows[:20].numpy(), np.full((1, 3), 500, np.float32)])
    np.save(tmp_path / "asked.npy", asked)
    expected = fitted.records(torch.from_numpy(asked))
    assert expected[-1]["p_value"] == min(record["p_value"] for record in expected) < 0.05
    assert expected[-1]["uncertainty"] > 0.99
    loaded = TrainedModel.load(tmp_path / "model.safetensors")
    assert loaded.records(torch.from_numpy(asked)) == expected

    def without_names(records):
        return [{key: value for key, value in record.items() if key != "name"} for record in records]

    predict_to_file(tmp_path / "model.safetensors", [tmp_path / "asked.npy"], tmp_path / "said.jsonl")
    lines = (tmp_path / "said.jsonl").read_text().splitlines()
    of_file = without_names(map(json.loads, lines))
    for said, record in zip(of_file, expected, strict=True):
        for name in ("label", "uncertainty", "p_value"):
            assert said[name] == record[name], name
    body = json.dumps({"inputs": asked.tolist()})
    response = ask("POST", "/v1/opinions", app=create_app({"model": loaded}), content=body, headers=JSON)
    assert without_names(response.json()["results"][0]["opinions"]) == without_names(expected)
