"""Networks that ONNX Runtime computes."""

import json
import logging

import pytest
import torch
from tests.serve.helpers import PICTURE, ROWS, pictures, untrained

from nescio import InputError
from nescio.inference.export import export_onnx
from nescio.methods import DAEDL, EDL, FEDL, Dropout, Ensemble, Softmax
from nescio.serve import _runtime
from nescio.serve._models import load_models, load_stored, store_networks
from nescio.serve._runtime import choose_network, runtime_of, with_network
from nescio.serve.app import create_app

pytestmark = pytest.mark.filterwarnings("ignore")  # of the exporter, about itself


def test_it_says_what_torch_says(ask, tmp_path, caplog):
    """In one process, and from what a parent has stored for its workers; the exporter says nothing."""
    log = logging.getLogger("torch.onnx._internal.exporter._registration")
    log.addHandler(caplog.handler)  # what torch logs does not reach the root
    model = untrained(PICTURE, EDL())
    path = tmp_path / "small.safetensors"
    model.save(path)
    served = load_models({"small": path}, "onnx")["small"]
    store_networks({"small": path}, "onnx")
    stored = load_stored({"small": path})["small"]
    log.removeHandler(caplog.handler)
    assert not any("torchvision" in record.getMessage() for record in caplog.records)
    assert (runtime_of(model), runtime_of(served), runtime_of(stored)) == ("torch", "onnx", "onnx")
    body = {"inputs": pictures(5).tolist()}
    expected = ask("POST", "/v1/opinions", app=create_app({"small": model}), json=body).json()
    for one in (served, stored):
        app = create_app({"small": one})
        answer = ask("POST", "/v1/opinions", app=app, json=body).json()
        for said, wanted in zip(
            answer["results"][0]["opinions"], expected["results"][0]["opinions"], strict=True
        ):
            assert said["belief"] == pytest.approx(wanted["belief"], abs=1e-5)
            assert said["best"] == wanted["best"]
        assert ask("GET", "/v1/models", app=app).json()["models"][0]["runtime"] == "onnx"


def test_auto_takes_the_faster_one(monkeypatch):
    model = untrained(ROWS, Softmax())
    seconds = {"torch": 1.0, "onnx": 0.5}
    monkeypatch.setattr(_runtime, "_seconds", lambda one, _: seconds[runtime_of(one)])
    content = choose_network("rows", model, "auto")
    assert runtime_of(with_network(model, content)) == "onnx"
    seconds["onnx"] = 0.95  # too little to be worth another one
    assert choose_network("rows", model, "auto") is None
    assert choose_network("rows", model, "torch") is None


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (Dropout(), "its method, dropout, is more than one pass of one network"),
        (Ensemble(num_members=2), "its method, ensemble, is more than one pass of one network"),
        (DAEDL(), "it can't be computed there"),  # they ask more of a network than to be called
        (FEDL(head_hidden=4), "it can't be computed there"),
    ],
)
def test_what_asks_more_than_one_pass_is_for_torch(method, reason):
    model = untrained(PICTURE if isinstance(method, Dropout | Ensemble) else ROWS, method)
    assert choose_network("many", model, "auto") is None
    with pytest.raises(InputError, match=f"runtime must be torch for the model many: {reason}"):
        choose_network("many", model, "onnx")


def test_what_is_computed_otherwise_is_not_taken(monkeypatch):
    model = untrained(ROWS, EDL())
    wrong = untrained(ROWS, EDL())
    with torch.no_grad():
        for parameter in wrong.module.parameters():
            parameter.mul_(-1.0)
    content = _runtime.export_network(wrong)
    monkeypatch.setattr(_runtime, "export_network", lambda _: content)
    assert choose_network("rows", model, "auto") is None
    with pytest.raises(InputError, match="it says something else there"):
        choose_network("rows", model, "onnx")


def test_an_exported_file_says_what_its_numbers_mean(tmp_path):
    import onnx

    model = untrained(ROWS, EDL())
    export_onnx(model, tmp_path / "rows.onnx")
    properties = {entry.key: entry.value for entry in onnx.load(tmp_path / "rows.onnx").metadata_props}
    said = {name: json.loads(properties[f"nescio.{name}"]) for name in ("classes", "rule", "sets", "posthoc")}
    assert said == {"classes": ["cat", "dog", "owl"], "rule": None, "sets": None, "posthoc": None}
    assert json.loads(properties["nescio.method"])["name"] == "edl"
    assert json.loads(properties["nescio.preprocess"])["input_shape"] == [4]
