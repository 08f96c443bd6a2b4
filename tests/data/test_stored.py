"""Rows on the disk: read by position when they are asked for, and nothing kept."""

import os
import pickle

import pytest
import torch

from nescio._files import digest
from nescio.data import Dataset, Preprocess, StoredArray, Table, split
from nescio.data import _stored as stored_module
from nescio.data._npy_rows import FileRows
from nescio.data._stored import ConvertedRows, as_float32, row_chunks, select_rows, stored_once
from nescio.data.preprocess import input_range_of
from nescio.errors import DataError, InputError

ROWS = torch.arange(60, dtype=torch.uint8).view(10, 3, 2)


@pytest.fixture
def stored(tmp_path):
    return StoredArray.write(tmp_path / "rows.npy", ROWS)


def test_it_looks_like_the_tensor(stored):
    assert len(stored) == 10
    assert stored.shape == ROWS.shape
    assert (stored.ndim, stored.dtype, stored.nbytes) == (3, torch.uint8, 60)
    assert not stored.is_floating_point()
    assert repr(stored) == "StoredArray(uint8 (10, 3, 2))"


@pytest.mark.parametrize(
    "index",
    [
        torch.tensor([3, 1, 1, 9]),
        torch.tensor([-1, 0]),
        torch.tensor([4, 5, 6, 2, 3]),
        torch.tensor([], dtype=torch.int64),
        torch.arange(10) % 3 == 0,
        slice(2, 7),
        slice(None, None, 3),
        slice(8, None),
        0,
        -1,
        [2, 4],
    ],
    ids=str,
)
def test_rows_by_position(stored, index):
    assert torch.equal(stored[index], ROWS[index])


def test_positions_beyond_the_end(stored):
    with pytest.raises(IndexError, match="within 10 rows, got 3 to 10"):
        stored[torch.tensor([3, 10])]
    with pytest.raises(IndexError):
        stored[10]
    with pytest.raises(InputError, match="mask must have 10 values, got 3"):
        stored[torch.tensor([True, False, True])]
    with pytest.raises(InputError, match="whole numbers"):
        stored[torch.tensor([0.5])]


def test_a_selection_reads_nothing_and_can_be_selected_from(stored, monkeypatch):
    read = []
    monkeypatch.setattr(FileRows, "read", lambda self, positions: read.append(positions))
    part = stored.select(torch.tensor([9, 7, 5, 3]))
    mask = torch.tensor([True, False, True, False])
    fewer = part.select(mask)
    assert (part.shape, fewer.shape) == ((4, 3, 2), (2, 3, 2))
    assert read == []
    monkeypatch.undo()
    assert torch.equal(part[:], ROWS[[9, 7, 5, 3]])
    assert torch.equal(fewer[:], ROWS[[9, 5]])
    assert torch.equal(select_rows(stored, mask.new_ones(10))[:], ROWS)
    assert torch.equal(select_rows(ROWS, torch.tensor([2])), ROWS[2:3])


def test_chunks(stored, monkeypatch):
    assert [len(part) for part in stored.chunks(4)] == [4, 4, 2]
    assert torch.equal(torch.cat(list(stored.chunks(4))), ROWS)
    assert torch.equal(torch.stack(list(stored)), ROWS)
    assert [len(part) for part in row_chunks(ROWS, 4)] == [4, 4, 2]
    monkeypatch.setattr(stored_module, "CHUNK_BYTES", 18)
    assert [len(part) for part in row_chunks(stored)] == [3, 3, 3, 1]
    assert [len(part) for part in row_chunks(ROWS)] == [3, 3, 3, 1]


def test_digests_do_not_depend_on_where_the_rows_are(stored, monkeypatch):
    expected = digest({"inputs": ROWS})
    assert digest({"inputs": stored}) == expected
    monkeypatch.setattr(stored_module, "CHUNK_BYTES", 7)
    assert digest({"inputs": stored}) == expected
    assert digest({"inputs": stored.select(torch.tensor([0]))}) != expected


@pytest.mark.parametrize("shape", [(50, 4), (50, 2, 3, 3)])
def test_statistics_do_not_depend_on_where_the_rows_are(tmp_path, monkeypatch, shape):
    monkeypatch.setattr(stored_module, "CHUNK_BYTES", 500)
    rows = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    kept = StoredArray.write(tmp_path / "rows.npy", rows)
    assert Preprocess.fit(kept) == Preprocess.fit(rows)
    assert torch.equal(input_range_of(kept), input_range_of(rows))


def test_data_sets_of_stored_rows_are_views(tmp_path):
    images = torch.arange(40 * 12, dtype=torch.int64).remainder(251).to(torch.uint8).view(40, 3, 2, 2)
    labels = torch.arange(40) % 4
    kept = StoredArray.write(tmp_path / "images.npy", images)
    resident = Dataset(images, labels, ("a", "b", "c", "d"), "images")
    data = Dataset(kept, labels, ("a", "b", "c", "d"), "images")
    pairs = [
        (data.take(torch.tensor([5, 2])), resident.take(torch.tensor([5, 2]))),
        (data.only(["d", "a"]), resident.only(["d", "a"])),
        (
            data.subset(7, torch.Generator().manual_seed(3)),
            resident.subset(7, torch.Generator().manual_seed(3)),
        ),
        *zip(split(data, 0.2, 0), split(resident, 0.2, 0), strict=True),
    ]
    for ours, theirs in pairs:
        assert isinstance(ours.images, StoredArray)
        assert torch.equal(ours.images[:], theirs.images)
        assert torch.equal(ours.labels, theirs.labels)
        assert ours.classes == theirs.classes


def test_tables_of_stored_rows(tmp_path):
    rows = torch.randn(6, 2)
    table = Table(StoredArray.write(tmp_path / "rows.npy", rows), torch.arange(6) % 2, ("a", "b"), "rows")
    assert torch.equal(table.take(torch.tensor([3])).features[:], rows[3:4])
    rows[4, 1] = float("nan")
    bad = StoredArray.write(tmp_path / "bad.npy", rows)
    with pytest.raises(DataError, match="features must be finite"):
        Table(bad, torch.arange(6) % 2, ("a", "b"), "rows")
    with pytest.raises(InputError, match="labels must be a tensor"):
        Table(rows, bad, ("a", "b"), "rows")


def test_the_index_is_checked(tmp_path, stored):
    with pytest.raises(InputError, match="index must be within 10 rows"):
        StoredArray(stored._rows, torch.tensor([10]))
    with pytest.raises(InputError, match="index must be int64"):
        StoredArray(stored._rows, torch.tensor([1.0]))


def test_written_once(tmp_path):
    written = []

    def fill(writer):
        written.append(writer.count)
        writer.append(ROWS[writer.count :])

    for _ in range(2):
        kept = stored_once(tmp_path / "rows.npy", (3, 2), torch.uint8, fill, lambda who: None)
        assert torch.equal(kept[:], ROWS)
    assert written == [0]


def test_errors_of_what_is_written_are_not_blamed_on_the_cache(tmp_path):
    def fill(writer):
        raise OSError("image file is truncated")

    with pytest.raises(OSError, match=r"^image file is truncated$"):
        stored_once(tmp_path / "rows.npy", (3, 2), torch.uint8, fill, lambda who: None)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="can't be written"):
        stored_once(tmp_path / "file" / "rows.npy", (3, 2), torch.uint8, fill, lambda who: None)


def test_what_was_not_used_for_long_is_removed(tmp_path):
    def fill(writer):
        writer.append(ROWS)

    old, used = tmp_path / "old.npy", tmp_path / "used.npy"
    for path in (old, used):
        stored_once(path, (3, 2), torch.uint8, fill, lambda who: None)
    (tmp_path / ".stopped.npy.part").write_bytes(b"rows")
    for path in (old, used, tmp_path / ".stopped.npy.part"):
        os.utime(path, (0, 0))
    stored_once(used, (3, 2), torch.uint8, fill, lambda who: None)
    stored_once(tmp_path / "new.npy", (3, 2), torch.uint8, fill, lambda who: None)
    kept = sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".lock")
    assert kept == ["new.npy", "new.npy.json", "used.npy", "used.npy.json"]


def test_rows_in_another_form(stored):
    doubled = StoredArray(ConvertedRows(stored, (6,), torch.float32, flat_and_doubled))
    assert torch.equal(doubled[torch.tensor([3, 1])], ROWS[[3, 1]].flatten(1) * 2.0)
    assert (doubled.shape, doubled.dtype) == ((10, 6), torch.float32)
    assert doubled.fingerprint() is None
    as_floats = as_float32(stored)
    assert torch.equal(pickle.loads(pickle.dumps(as_floats))[:], ROWS.float())


def flat_and_doubled(rows):
    return rows.flatten(1) * 2.0


def test_processes_on_a_machine_share_what_may_be_held_in_memory(monkeypatch):
    monkeypatch.setattr(stored_module, "RESIDENT_BYTES", 100)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert stored_module.is_resident(100)
    assert not stored_module.is_resident(101)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")  # as torchrun says
    assert stored_module.is_resident(50)
    assert not stored_module.is_resident(51)
