import struct

import numpy as np
import pytest
import torch

from nescio._fetch.formats import idx_bytes
from nescio.data._readers import read_cifar, read_idx, read_idx_pair
from nescio.errors import DataError


def test_idx_there_and_back(tmp_path):
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    (tmp_path / "f").write_bytes(idx_bytes(array))
    assert torch.equal(read_idx(tmp_path / "f", 3), torch.from_numpy(array))


def test_wrong_magic_number(tmp_path):
    (tmp_path / "f").write_bytes(struct.pack(">II", 0x0D01, 1) + b"x")
    with pytest.raises(DataError, match="magic number must be 2049, got 3329"):
        read_idx(tmp_path / "f", 1)


@pytest.mark.parametrize("content", [b"", b"\0\0\x08\x01", struct.pack(">II", 0x0801, 5) + b"abcd"])
def test_short_file(tmp_path, content):
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(DataError, match=r"too short|promises 5 bytes, the file holds 4"):
        read_idx(tmp_path / "f", 1)


def test_a_header_that_claims_everything_allocates_nothing(tmp_path):
    (tmp_path / "f").write_bytes(struct.pack(">IIII", 0x0803, 2**31, 2**31, 2**31 - 1))
    with pytest.raises(DataError, match="promises"):
        read_idx(tmp_path / "f", 3)


def test_pair_gives_channel_and_int64(tmp_path):
    (tmp_path / "i").write_bytes(idx_bytes(np.full((2, 5, 4), 7, np.uint8)))
    (tmp_path / "l").write_bytes(idx_bytes(np.array([3, 4], np.uint8)))
    images, labels = read_idx_pair([tmp_path / "i", tmp_path / "l"])
    assert images.shape == (2, 1, 5, 4)
    assert labels.dtype == torch.int64
    assert labels.tolist() == [3, 4]


def test_cifar_planes_and_labels(tmp_path):
    rows = np.zeros((2, 3073), np.uint8)
    rows[:, 0] = [9, 4]
    rows[1, 1 + 1024 : 1 + 2048] = 200  # the green plane of the second image
    rows[:1].tofile(tmp_path / "a.bin")
    rows[1:].tofile(tmp_path / "b.bin")
    images, labels = read_cifar([tmp_path / "a.bin", tmp_path / "b.bin"])
    assert labels.tolist() == [9, 4]
    assert images.shape == (2, 3, 32, 32)
    assert images[1].float().mean((1, 2)).tolist() == [0, 200, 0]


@pytest.mark.parametrize("size", [0, 3072, 3074])
def test_cifar_of_a_wrong_size(tmp_path, size):
    (tmp_path / "a.bin").write_bytes(bytes(size))
    with pytest.raises(DataError, match="not a whole number"):
        read_cifar([tmp_path / "a.bin"])
