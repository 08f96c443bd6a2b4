"""All inputs as a model takes them: in memory, or in the cache, with what is wrong with the others."""

import numpy as np
import pytest
import torch
from PIL import Image

from nescio.data import (
    ImagePreprocess,
    Input,
    MemorySource,
    RowPreprocess,
    Source,
    StoredArray,
    _stored,
    open_source,
    open_sources,
)
from nescio.errors import DataError

PREPROCESS = ImagePreprocess((1, 8, 8), (0.0,), (255.0,), pixel_range=(0.0, 255.0))


class Numbered(Source):
    """Rows (2,) of their own number; every tenth can't be read."""

    about = "numbers"
    name = "numbered"

    def __init__(self, count=60):
        self.count = count
        self.asked = []

    def __len__(self):
        return self.count

    def read(self, indices):
        self.asked += indices
        found = []
        for index in indices:
            if index % 10 == 9:
                found.append(Input(f"row {index}", None, "it is gone"))
            else:
                found.append(Input(f"row {index}", torch.full((2,), float(index))))
        return found

    def fingerprint(self):
        return f"numbers to {self.count}"


@pytest.fixture
def nothing_in_memory(monkeypatch, empty_cache):
    monkeypatch.setattr(_stored, "RESIDENT_BYTES", 10)
    return empty_cache


def check(prepared):
    kept = [index for index in range(60) if index % 10 != 9]
    assert prepared.kept.tolist() == kept
    assert prepared.inputs[:][:, 0].tolist() == kept
    assert prepared.unreadable == {f"row {index}": "it is gone" for index in range(9, 60, 10)}


def test_few_are_in_memory():
    prepared = Numbered().prepared()
    assert isinstance(prepared.inputs, torch.Tensor)
    check(prepared)


def test_many_are_written_once(nothing_in_memory):
    prepared = Numbered().prepared()
    assert isinstance(prepared.inputs, StoredArray)
    check(prepared)
    again = Numbered()
    check(again.prepared())
    assert again.asked == [0]  # the first tells the shape
    assert len(list((nothing_in_memory / "inputs").glob("*.npy"))) == 1


def test_another_preparation_is_another_file(nothing_in_memory):
    Numbered().prepared()
    rows = RowPreprocess((2,), (0.0,) * 2, (1.0,) * 2)
    check(Numbered().prepared(rows))
    assert len(list((nothing_in_memory / "inputs").glob("*.npy"))) == 2


def test_none_can_be_read():
    class Gone(Numbered):
        def read(self, indices):
            return [Input(f"row {index}", None, "it is gone") for index in indices]

    with pytest.raises(DataError, match="row 0: it is gone"):
        Gone().prepared()
    with pytest.raises(DataError, match="numbered holds nothing to read"):
        Numbered(0).prepared()


def test_what_can_not_be_read_is_an_error_in_training():
    class Labelled(Numbered):
        labels = type("", (), {"indices": torch.zeros(60, dtype=torch.int64), "classes": ("a", "b")})

    with pytest.raises(DataError, match="row 9: it is gone"):
        Labelled().labelled()


@pytest.fixture
def flat(tmp_path):
    """Pictures without classes, one of them broken."""
    for index in range(5):
        Image.new("RGB", (20 + index, 30), (index, index, index)).save(tmp_path / f"{index}.png")
    (tmp_path / "5.png").write_text("no picture")
    return tmp_path


@pytest.mark.parametrize("resident", [10**9, 10])
def test_a_flat_folder_needs_no_classes(flat, resident, monkeypatch, empty_cache):
    monkeypatch.setattr(_stored, "RESIDENT_BYTES", resident)
    prepared = open_source(flat).prepared(PREPROCESS)
    assert isinstance(prepared.inputs, StoredArray) == (resident == 10)
    assert prepared.inputs[:][:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4]
    assert prepared.inputs.shape == (5, 1, 8, 8)
    assert list(prepared.unreadable) == [str(flat / "5.png")]


def test_a_folder_without_a_readable_picture(tmp_path):
    (tmp_path / "0.png").write_text("no picture")
    with pytest.raises(DataError, match=r"holds no readable picture; the last: 0\.png is not a PNG"):
        open_source(tmp_path).prepared(PREPROCESS)


def test_images_of_another_size_and_of_other_channels(monkeypatch, empty_cache):
    images = torch.full((3, 3, 16, 16), 200, dtype=torch.uint8)
    for resident in (10**9, 10):
        monkeypatch.setattr(_stored, "RESIDENT_BYTES", resident)
        prepared = MemorySource(images, "three").prepared(PREPROCESS)
        assert prepared.inputs.shape == (3, 1, 8, 8)
        assert prepared.inputs[:].unique().tolist() == [200]
    same = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    assert MemorySource(same).prepared(PREPROCESS).inputs is same
    with pytest.raises(DataError, match="must be 1 x 8 x 8 numbers, got 3 x 3"):
        MemorySource(torch.zeros(2, 3, 3)).prepared(PREPROCESS)


def test_several_sources(flat, tmp_path):
    np.save(tmp_path / "more.npy", np.full((2, 8, 8), 9, np.uint8))
    prepared = open_sources([flat / "0.png", tmp_path / "more.npy"]).prepared(PREPROCESS)
    assert prepared.inputs[:, 0, 0, 0].tolist() == [0, 9, 9]
