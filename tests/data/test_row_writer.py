"""Rows are written in one step, and gone on with after an interruption."""

import errno
import os
import subprocess
import sys
from functools import partial

import pytest
import torch

from nescio.data import StoredArray
from nescio.data._row_writer import DiskFullError, StoredArrayWriter, read_notes
from nescio.data._stored import stored_once
from nescio.errors import DataError, InputError

ROWS = torch.arange(60, dtype=torch.uint8).view(10, 3, 2)


@pytest.fixture
def stored(tmp_path):
    return StoredArray.write(tmp_path / "rows.npy", ROWS)


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
        writer.finish()
    assert torch.equal(StoredArray.open(path)[:], ROWS)
    assert read_notes(path) == {"broken": {"2": "why"}}
    assert left_in(tmp_path) == ["rows.npy", "rows.npy.json"]


def test_a_killed_writer_goes_on(tmp_path):
    path = tmp_path / "rows.npy"
    code = (
        "import os, signal, torch; from pathlib import Path; from nescio.data import _row_writer;"
        "_row_writer.FLUSH_BYTES = 1;"
        f"writer = _row_writer.StoredArrayWriter(Path({str(path)!r}), (3, 2), torch.uint8);"
        "writer.append(torch.arange(30, dtype=torch.uint8).view(5, 3, 2));"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -9
    with StoredArrayWriter(path, (3, 2), torch.uint8) as writer:
        assert writer.count == 5
        writer.append(ROWS[5:])
        writer.finish()
    assert torch.equal(StoredArray.open(path)[:], ROWS)


def test_what_another_shape_left_is_not_gone_on_with(tmp_path):
    path = tmp_path / "rows.npy"
    with StoredArrayWriter(path, (6,), torch.uint8) as writer:
        writer.append(ROWS.view(10, 6))
        writer.flush()
    with StoredArrayWriter(path, (3, 2), torch.uint8) as writer:
        assert writer.count == 0
        writer.append(ROWS[:2])
        writer.finish()
    assert torch.equal(StoredArray.open(path)[:], ROWS[:2])


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
from nescio.data._row_writer import DiskFullError
from nescio.data._stored import StoredArray
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


def test_damaged_notes(tmp_path, stored):
    for text in ("[]", "{"):
        (tmp_path / "rows.npy.json").write_text(text)
        with pytest.raises(DataError, match=r"rows\.npy\.json is damaged"):
            read_notes(tmp_path / "rows.npy")
