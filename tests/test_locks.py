import subprocess
import sys

from filelock import FileLock

from nescio._locks import one_at_a_time


def test_a_lock_that_is_free_is_not_waited_for(tmp_path):
    waited = []
    with one_at_a_time(tmp_path / "new" / "lock", lambda: waited.append(True)):
        assert (tmp_path / "new" / "lock").exists()
    assert waited == []


def test_a_lock_that_another_has_is_waited_for(tmp_path):
    held = FileLock(tmp_path / "lock")
    held.acquire()
    order = []

    def release():
        order.append("waited")
        held.release()

    with one_at_a_time(tmp_path / "lock", release):
        order.append("held")
    assert order == ["waited", "held"]


def test_it_is_released_after_an_error(tmp_path):
    try:
        with one_at_a_time(tmp_path / "lock", lambda: None):
            raise ValueError
    except ValueError:
        pass
    again = FileLock(tmp_path / "lock", timeout=0)
    again.acquire()
    assert again.is_locked
    again.release()


def test_torch_is_not_waited_for():
    code = "import sys, nescio._locks; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
