"""Rows on the disk: read by position, written in one step, gone on with after an interruption."""

import errno
import os
import pickle
import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pytest
import torch

from nescio._files import digest
from nescio.data import Dataset, Preprocess, StoredArray, Table, split
from nescio.data import _stored as stored_module
from nescio.data._stored import (
    DTYPES,
    HEADER_BYTES,
    ConvertedRows,
    DiskFullError,
    FileRows,
    StoredArrayWriter,
    as_float32,
    read_notes,
    row_chunks,
    select_rows,
    stored_once,
)
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


def left_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_an_interrupted_writing_goes_on(tmp_path):
    path = tmp_path / "rows.npy"
    with StoredArrayWriter(path, (3, 2), torch.uint8) as writer:
        writer.append(ROWS[:4])
        writer.notes = {"broken": {"2": "why"}}
        writer.flush()
        writer.append(ROWS[4:6])  # not flushed: not known to be on the disk
    assert not path.exists()
    with StoredArrayWriter(path, (3, 2), torch.uint8) as writer:
        assert writer.count == 4
        assert writer.notes == {"broken": {"2": "why"}}
        writer.append(ROWS[4:])
        kept = writer.finish()
    assert torch.equal(kept[:], ROWS)
    assert read_notes(path) == {"broken": {"2": "why"}}
    assert left_in(tmp_path) == ["rows.npy", "rows.npy.json"]


def test_a_killed_writer_goes_on(tmp_path):
    path = tmp_path / "rows.npy"
    code = (
        "import os, signal, torch; from pathlib import Path; from nescio.data import _stored;"
        "_stored.FLUSH_BYTES = 1;"
        f"writer = _stored.StoredArrayWriter(Path({str(path)!r}), (3, 2), torch.uint8);"
        "writer.append(torch.arange(30, dtype=torch.uint8).view(5, 3, 2));"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -9
    with StoredArrayWriter(path, (3, 2), torch.uint8) as writer:
        assert writer.count == 5
        writer.append(ROWS[5:])
        assert torch.equal(writer.finish()[:], ROWS)


def test_what_another_shape_left_is_not_gone_on_with(tmp_path):
    path = tmp_path / "rows.npy"
    with StoredArrayWriter(path, (6,), torch.uint8) as writer:
        writer.append(ROWS.view(10, 6))
        writer.flush()
    with StoredArrayWriter(path, (3, 2), torch.uint8) as writer:
        assert writer.count == 0
        writer.append(ROWS[:2])
        assert torch.equal(writer.finish()[:], ROWS[:2])


def test_a_damaged_record_means_from_the_beginning(tmp_path):
    path = tmp_path / "rows.npy"
    with StoredArrayWriter(path, (3, 2), torch.uint8) as writer:
        writer.append(ROWS)
        writer.flush()
    (tmp_path / ".rows.npy.part.json").write_text('{"rows": ')
    with StoredArrayWriter(path, (3, 2), torch.uint8) as writer:
        assert writer.count == 0


def test_what_is_appended_is_checked(tmp_path):
    with StoredArrayWriter(tmp_path / "rows.npy", (3, 2), torch.uint8) as writer:
        with pytest.raises(InputError, match=r"rows must be torch.uint8 \(N, 3, 2\), got torch.float32"):
            writer.append(ROWS.float())
        with pytest.raises(InputError, match="rows must be"):
            writer.append(ROWS[0])
    with pytest.raises(InputError, match="dtype must be one of"):
        StoredArrayWriter(tmp_path / "rows.npy", (3,), torch.bfloat16)
    with pytest.raises(InputError, match="too many axes"):
        StoredArrayWriter(tmp_path / "rows.npy", (1,) * 40, torch.uint8)


@pytest.mark.parametrize("moment", ["write", "fsync"])
def test_a_disk_that_fills_up_leaves_nothing(tmp_path, monkeypatch, moment):
    path = tmp_path / "cache" / "rows.npy"

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with StoredArrayWriter(path, (3, 2), torch.uint8) as writer:
        writer.append(ROWS[:4])
        writer.flush()
        if moment == "write":
            writer._file.close()
            writer._file = type("Full", (), {"write": full, "close": lambda self: None})()
        else:
            monkeypatch.setattr(os, "fsync", full)
        act = writer.finish if moment == "fsync" else partial(writer.append, ROWS[4:])
        with pytest.raises(DiskFullError, match=r"no room on the disk: more than 0 MB .*NESCIO_CACHE"):
            act()
    monkeypatch.undo()
    assert left_in(path.parent) == []


def test_a_file_that_may_not_grow_is_a_full_disk(tmp_path):
    """With a real limit of the system, in a process of its own."""
    code = f"""
import resource, signal, sys, torch
from pathlib import Path
from nescio.data._stored import StoredArray, DiskFullError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    StoredArray.write(Path({str(tmp_path / "rows.npy")!r}), torch.zeros(1000, 1000))
except DiskFullError:
    sys.exit(7)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 7, done.stderr
    assert left_in(tmp_path) == []


def test_a_folder_that_can_not_be_written(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(DataError, match=r"cache folder .*file can't be written: .*NESCIO_CACHE"):
        StoredArray.write(tmp_path / "file" / "rows.npy", ROWS)
    with pytest.raises(DataError, match=r"cache folder .*file can't be written: .*NESCIO_CACHE"):
        stored_once(tmp_path / "file" / "rows.npy", (2,), torch.uint8, lambda writer: None, lambda who: None)


def test_written_once(tmp_path):
    written = []

    def fill(writer):
        written.append(writer.count)
        writer.append(ROWS[writer.count :])

    for _ in range(2):
        kept = stored_once(tmp_path / "rows.npy", (3, 2), torch.uint8, fill, lambda who: None)
        assert torch.equal(kept[:], ROWS)
    assert written == [0]


def test_damaged_notes(tmp_path, stored):
    for text in ("[]", "{"):
        (tmp_path / "rows.npy.json").write_text(text)
        with pytest.raises(DataError, match=r"rows\.npy\.json is damaged"):
            read_notes(tmp_path / "rows.npy")


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
    kept = [name for name in left_in(tmp_path) if not name.endswith(".lock")]
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
