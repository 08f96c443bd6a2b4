import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from nescio._locks import one_at_a_time


def test_a_lock_that_is_free_is_not_waited_for(tmp_path):
    waited = []
    with one_at_a_time(tmp_path / "new" / "lock", waited.append):
        assert (tmp_path / "new" / "lock").exists()
    assert waited == []


def test_a_lock_that_another_has_is_waited_for(tmp_path):
    held = FileLock(tmp_path / "lock")
    held.acquire()
    order = []

    def release(holder):
        order.append(holder)
        held.release()

    with one_at_a_time(tmp_path / "lock", release):
        order.append("held")
    assert order == ["another process", "held"]


def test_a_holder_that_can_not_be_read_is_another_process(tmp_path):
    held = FileLock(tmp_path / "lock")
    held.acquire()
    (tmp_path / "lock").write_bytes(b"\xff")
    said = []

    def release(holder):
        said.append(holder)
        held.release()

    with one_at_a_time(tmp_path / "lock", release):
        assert said == ["another process"]


def test_it_is_released_after_an_error(tmp_path):
    try:
        with one_at_a_time(tmp_path / "lock", lambda _: None):
            raise ValueError
    except ValueError:
        pass
    again = FileLock(tmp_path / "lock", timeout=0)
    again.acquire()
    assert again.is_locked
    again.release()


def test_who_holds_it_is_said(tmp_path):
    code = """
import sys, pathlib
from nescio._locks import one_at_a_time
with one_at_a_time(pathlib.Path(sys.argv[1]), lambda _: None, keep=False):
    print("held", flush=True)
    sys.stdin.readline()
"""
    path = tmp_path / "lock"
    other = subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout.readline() == "held\n"
    said = []

    def let_go(holder):
        said.append(holder)
        other.communicate("\n")

    with one_at_a_time(path, let_go, keep=False):
        # The file that the other removed is not the one that is held now.
        assert path.read_text() == f"process {os.getpid()} on {platform.node()}"
    assert said == [f"process {other.pid} on {platform.node()}"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that takes no files")
def test_a_folder_that_takes_no_files_is_an_error_and_nothing_to_wait_for():
    waited = []

    def waits(holder):
        waited.append(holder)
        raise AssertionError(holder)  # else it would wait forever

    with pytest.raises(FileNotFoundError), one_at_a_time(Path("/proc/.lock"), waits):
        pass
    assert waited == []


def test_a_lock_whose_file_has_just_gone_is_waited_for(tmp_path, monkeypatch):
    """As where another process has removed it; who it was is not known."""
    real = FileLock.acquire
    said = []

    def acquire(lock, timeout=None):
        if timeout == 0:
            raise Timeout(lock.lock_file)
        return real(lock)

    monkeypatch.setattr(FileLock, "acquire", acquire)
    with one_at_a_time(tmp_path / "lock", said.append):
        assert (tmp_path / "lock").exists()
    assert said == ["another process"]


def test_torch_is_not_waited_for():
    code = "import sys, nescio._locks; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
