"""Places: a path, a name, or the bytes of a file."""

import pytest
import torch

from nescio.data import Picture, Place
from nescio.data.sources._preparing import _as_tensor
from nescio.errors import DataError


def test_a_file_on_the_disk(tmp_path):
    (tmp_path / "A.Csv").write_bytes(b"1,2")
    place = Place(str(tmp_path / "A.Csv"))
    assert (place.suffix, place.short_name, place.is_file(), place.is_folder()) == (
        ".csv",
        "A.Csv",
        True,
        False,
    )
    assert place.read_bytes() == b"1,2"
    with place.open_file() as file:
        assert file.read() == b"1,2"
    assert Place("A.Csv", folder=tmp_path).digest() == place.digest() == Place("x", b"1,2").digest()
    assert Place(str(tmp_path)).is_folder()


def test_bytes_do_not_look_at_the_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    place = Place("folder", b"x")
    assert (place.is_file(), place.is_folder()) == (True, False)


def test_a_file_that_can_not_be_read(tmp_path):
    with pytest.raises(DataError, match=r"none\.csv can't be read: No such file"):
        Place(str(tmp_path / "none.csv")).read_bytes()


def test_values_of_a_kind_that_has_no_numbers_yet():
    assert torch.equal(_as_tensor(torch.ones(2), None), torch.ones(2))
    with pytest.raises(DataError, match="a source of Pictures must say itself"):
        _as_tensor(Picture(b"", "x.png"), None)
