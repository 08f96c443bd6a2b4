"""The pair that comes with the package: small, loadable, good on digits, and different in doubt."""

import json
import struct

import pytest
import torch
from tests.inference.pretrained import TinySpec
from tests.serve.helpers import PICTURE, ROWS, untrained

from nescio.data import Dataset, load
from nescio.inference.model import TrainedModel
from nescio.methods import EDL, REDL
from nescio.serve._models import ServedModel, bundled_paths, load_models
from nescio.training import TrainingSettings


def test_two_files_under_three_megabytes():
    paths = bundled_paths()
    assert list(paths) == ["edl", "softmax"]
    assert sum(path.stat().st_size for path in paths.values()) < 3_000_000


def test_their_headers_tell_of_no_machine():
    for path in bundled_paths().values():
        content = path.read_bytes()
        (length,) = struct.unpack("<Q", content[:8])
        metadata = json.loads(content[8 : 8 + length])["__metadata__"]
        text = json.dumps(metadata)
        assert list(metadata) == ["nescio"]
        assert '"mnist"' in text.replace("\\", "")
        assert not any(word in text for word in ("/home", "/root", "/tmp", "/work", ":\\\\"))


def test_they_know_digits_and_only_one_doubts_letters():
    models = load_models(bundled_paths())
    evidential = {name: ServedModel(name, model).is_evidential for name, model in models.items()}
    assert evidential == {"edl": True, "softmax": False}
    digits, letters = load("digits", "test"), load("letters", "test")
    doubt = {}
    for name, model in models.items():
        right = model.predict(digits.images).labels == model.labels_of(digits)
        assert right.float().mean() >= 0.99
        doubt[name] = model.predict(letters.images).entropy(normalized=True).mean().item()
    assert doubt["edl"] > 2 * doubt["softmax"]
    assert models["edl"].accepts(models["edl"].predict(digits.images)).float().mean() > 0.95


def test_both_are_the_same_network():
    edl, softmax = load_models(bundled_paths()).values()
    assert edl.network == softmax.network
    assert edl.training["settings"] == softmax.training["settings"]
    assert edl.training["data"]["samples"] == pytest.approx(60_000)


def test_a_description_says_what_a_client_must_send():
    picture = ServedModel("picture", untrained(PICTURE, EDL())).describe()
    assert (picture["kind"], picture["encoder"], picture["resize"]) == ("images", "lenet", "stretch")
    assert (picture["columns"], picture["max_length"], picture["trained_on"]) == (None, None, None)
    rows = ServedModel("rows", untrained(ROWS, EDL())).describe()
    assert (rows["kind"], rows["encoder"], rows["resize"]) == ("rows", "mlp", None)
    assert [column["name"] for column in rows["columns"]] == ["1", "2", "3", "4"]


def test_a_head_says_which_encoder_it_stands_on(tmp_path, monkeypatch):
    monkeypatch.setenv("NESCIO_CACHE", str(tmp_path))
    photos = torch.randint(0, 256, (8, 3, 40, 40), dtype=torch.uint8)
    data = Dataset(photos, torch.arange(8) % 2, ("apple", "pear"), "fruit")
    settings = TrainingSettings(epochs=1)
    description = ServedModel(
        "fruit", TrainedModel.train(data, network=TinySpec(40, 2), settings=settings)
    ).describe()
    assert description["encoder"] == "tiny-pretrained"
    assert description["trained_on"] == "fruit"


def test_a_served_model_tells_the_prior_of_its_opinions(tmp_path):
    """Saved, loaded, described and asked: the prior of R-EDL is that of its opinions."""
    model = untrained(ROWS, REDL(prior=0.25))
    model.save(tmp_path / "relaxed.safetensors")
    (loaded,) = load_models({"relaxed": tmp_path / "relaxed.safetensors"}).values()
    assert ServedModel("relaxed", loaded).describe()["prior"] == 0.25
    (record,) = loaded.records(torch.ones(1, 4))
    evidence = model.predict(torch.ones(1, 4)).evidence
    assert record["uncertainty"] == pytest.approx(0.75 / (float(evidence.sum()) + 0.75), rel=1e-6)
    assert sum(record["belief"]) + record["uncertainty"] == pytest.approx(1, rel=1e-6)
