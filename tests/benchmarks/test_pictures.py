"""The benchmark of pictures on the disk, with a few small ones."""

from dataclasses import replace

import pytest
import torch
from benchmarks import pictures

from nescio.data import StoredArray, _decoding, _stored
from nescio.errors import FetchError


@pytest.fixture
def folder(tmp_path, monkeypatch, empty_cache):
    """Noise, so that no data set has to be fetched; more than is held in memory."""

    def not_here(*_):
        raise FetchError("not here")

    monkeypatch.setattr(pictures, "load", not_here)
    monkeypatch.setattr(pictures, "SIDES", (20, 50))
    monkeypatch.setattr(_stored, "RESIDENT_BYTES", 1000)
    pictures.make(tmp_path / "photos", 90)
    return tmp_path / "photos"


def test_pictures_of_varied_sizes(folder):
    assert len(list(folder.rglob("*.jpg"))) == 67
    assert len(list(folder.rglob("*.png"))) == 23
    assert len({path.parent for path in folder.rglob("*.jpg")}) == 10


def test_streamed_and_resident_give_the_same_weights(folder, monkeypatch):
    data = pictures.opened(folder, 64)
    assert isinstance(data.images, StoredArray)
    monkeypatch.setattr(_decoding, "decode_some", None)  # nothing is decoded again
    again = pictures.opened(folder, 64)
    streamed = pictures.train(again)
    resident = pictures.train(replace(data, images=data.images[:]))
    assert streamed["weights"] == resident["weights"]
    assert len(streamed["seconds"]) == pictures.EPOCHS
    assert torch.equal(again.images[:], data.images[:])
