"""Rows of .npy files: numpy's and ours, whole and damaged, from several threads and processes."""

import os
import pickle
import threading

import numpy as np
import pytest
import torch

from nescio.data import StoredArray
from nescio.data._npy_rows import DTYPES, HEADER_BYTES
from nescio.errors import DataError

ROWS = torch.arange(60, dtype=torch.uint8).view(10, 3, 2)


@pytest.fixture
def stored(tmp_path):
    return StoredArray.write(tmp_path / "rows.npy", ROWS)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_every_type_there_and_back_and_as_numpy_reads_it(tmp_path, dtype):
    rows = (torch.randn(5, 4, generator=torch.Generator().manual_seed(0)) * 10).to(dtype)
    kept = StoredArray.write(tmp_path / "rows.npy", rows)
    assert torch.equal(kept[:], rows)
    assert np.array_equal(np.load(tmp_path / "rows.npy"), rows.numpy())
    assert kept.is_floating_point() == dtype.is_floating_point


def test_numpys_own_files(tmp_path):
    for name, array in {
        "plain": np.arange(12, dtype=np.float32).reshape(4, 3),
        "one": np.arange(4),
        "version 2": np.arange(6, dtype=np.uint8).reshape(3, 2),
    }.items():
        path = tmp_path / f"{name}.npy"
        version = (2, 0) if name == "version 2" else None
        with path.open("wb") as file:
            np.lib.format.write_array(file, array, version=version)
        assert np.array_equal(StoredArray.open(path)[:].numpy(), array)


@pytest.mark.parametrize(
    "array", [np.asfortranarray(np.eye(3)), np.eye(3, dtype=">f8"), np.array(3.0), np.array(["a"])]
)
def test_what_can_not_be_read_row_by_row(tmp_path, array):
    np.save(tmp_path / "rows.npy", array)
    with pytest.raises(DataError, match="can't be read row by row"):
        StoredArray.open(tmp_path / "rows.npy")


def test_files_that_are_none(tmp_path):
    with pytest.raises(DataError, match=r"rows\.npy can't be opened"):
        StoredArray.open(tmp_path / "rows.npy")
    (tmp_path / "rows.npy").write_bytes(b"something else")
    with pytest.raises(DataError, match=r"rows\.npy is no \.npy file"):
        StoredArray.open(tmp_path / "rows.npy")


def test_a_file_that_is_cut_off(tmp_path, stored):
    path = tmp_path / "rows.npy"
    os.truncate(path, HEADER_BYTES + 30)
    with pytest.raises(DataError, match="is cut off: 188 bytes expected, got 158"):
        StoredArray.open(path)
    with pytest.raises(DataError, match="was cut off while it was being read"):
        stored[9]


def test_another_process_opens_it_itself(stored):
    again = pickle.loads(pickle.dumps(stored.select(torch.tensor([1, 4]))))
    assert torch.equal(again[:], ROWS[[1, 4]])


def test_many_threads_read_at_once(stored):
    wrong = []

    def read_often(start):
        for step in range(200):
            position = (start + step) % 10
            if not torch.equal(stored[position], ROWS[position]):
                wrong.append(position)

    threads = [threading.Thread(target=read_often, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_without_positioned_reads(stored, monkeypatch):
    monkeypatch.delattr(os, "preadv", raising=False)
    assert torch.equal(stored[torch.tensor([8, 2])], ROWS[[8, 2]])
