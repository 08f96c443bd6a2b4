"""The pair that comes with the package: small, loadable, good on digits, and different in doubt."""

import json
import struct

import pytest

from nescio.data import load
from nescio.serve.served import bundled_paths, load_models


def test_two_files_under_three_megabytes():
    paths = bundled_paths()
    assert [path.name for path in paths] == ["edl.safetensors", "l2.safetensors"]
    assert sum(path.stat().st_size for path in paths) < 3_000_000


def test_their_headers_tell_of_no_machine():
    for path in bundled_paths():
        content = path.read_bytes()
        (length,) = struct.unpack("<Q", content[:8])
        metadata = json.loads(content[8 : 8 + length])["__metadata__"]
        text = json.dumps(metadata)
        assert '"mnist"' in text.replace("\\", "")
        assert not any(word in text for word in ("/home", "/root", "/tmp", "/work", ":\\\\"))


def test_they_know_digits_and_only_one_doubts_letters():
    models = load_models([])
    assert [model.name for model in models.values()] == ["edl", "l2"]
    assert [model.evidential for model in models.values()] == [True, False]
    digits, letters = load("digits", "test"), load("letters", "test")
    doubt = {}
    for name, served in models.items():
        right = served.model.predict(digits.images).labels == served.model.labels_of(digits)
        assert right.float().mean() >= 0.99
        doubt[name] = served.model.predict(letters.images).entropy(normalized=True).mean().item()
    assert doubt["edl"] > 2 * doubt["l2"]
    assert models["edl"].model.accepts(models["edl"].model.predict(digits.images)).float().mean() > 0.95


def test_both_are_the_same_network():
    edl, l2 = (model.model for model in load_models([]).values())
    assert edl.network == l2.network
    assert edl.training["settings"] == l2.training["settings"]
    assert edl.training["data"]["samples"] == pytest.approx(60_000)
