"""One of several processes: what it answers its parent, and that it ends with it."""

import multiprocessing
import os
import signal
import threading
from types import SimpleNamespace

import pytest
from tests.serve.helpers import PICTURE, untrained

from nescio.errors import ModelFileError
from nescio.methods import EDL, Softmax
from nescio.serve import _worker
from nescio.serve._process import ServerSettings, application_of


def started():
    """A worker that listens, its application, and its parent's end of the channel."""
    parents, workers = multiprocessing.Pipe()
    application = application_of({"small": untrained(PICTURE, EDL())}, ServerSettings())
    orders = _worker._Orders(workers, application)
    orders.start()
    assert parents.recv() == (_worker.STARTED, None)
    return orders, application, parents


def test_it_shows_what_it_has_prepared_and_ends_when_its_parent_is_gone(tmp_path, monkeypatch):
    told = []
    ended = threading.Event()
    monkeypatch.setattr(os, "kill", lambda process, number: (told.append((process, number)), ended.set()))
    orders, application, parent = started()
    shown = []
    monkeypatch.setattr(application, "show", shown.append)
    soft = tmp_path / "soft.safetensors"
    untrained(PICTURE, Softmax()).save(soft)

    parent.send((_worker.PREPARE, {"soft": tmp_path / "missing.safetensors"}))
    order, reason = parent.recv()
    assert order == _worker.PREPARED
    assert "missing.safetensors" in reason
    with monkeypatch.context() as broken:
        broken.setattr(_worker, "load_stored", lambda paths: len(paths) + "x")
        parent.send((_worker.PREPARE, {"soft": soft}))
        order, reason = parent.recv()  # a mistake of ours: it listens on
    assert reason.startswith("TypeError: unsupported operand")
    parent.send((_worker.SHOW, None))  # nothing is there to be shown: no answer
    parent.send((_worker.PREPARE, {"soft": soft}))
    assert parent.recv() == (_worker.PREPARED, None)
    assert shown == []
    parent.send((_worker.SHOW, None))
    assert parent.recv() == (_worker.SHOWN, None)
    assert shown == [orders._prepared]

    assert not orders.is_orphaned
    parent.close()
    assert ended.wait(30)
    assert orders.is_orphaned
    assert told == [(os.getpid(), signal.SIGTERM)]


@pytest.mark.parametrize("parent_lives", [True, False])
def test_without_files_it_ends_quietly_where_its_parent_is_gone(tmp_path, monkeypatch, parent_lives):
    parent = SimpleNamespace(is_alive=lambda: parent_lives)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: parent)
    with pytest.raises(ModelFileError if parent_lives else SystemExit) as raised:
        _worker._load({"soft": tmp_path / "missing.safetensors"}, ServerSettings())
    assert parent_lives or raised.value.code == 0
