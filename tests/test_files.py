import errno
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from nescio import _files
from nescio._files import (
    create_atomically,
    digest,
    move_atomically,
    named,
    read_tensors,
    remove_leftovers,
    write_atomically,
    write_tensors,
)
from nescio.errors import ModelFileError


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "new" / "file"
    write_atomically(path, b"old")

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]


def test_a_file_keeps_its_mode_and_a_link_its_target(tmp_path):
    target = tmp_path / "elsewhere" / "model"
    write_atomically(target, b"old")
    target.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o600
    written = tmp_path / "written"
    written.write_bytes(b"newer")
    move_atomically(written, target)
    assert target.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("write", [write_atomically, lambda path, content: move_atomically(content, path)])
def test_a_read_only_file_is_not_replaced(tmp_path, write):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    path.chmod(0o444)
    content = b"new"
    if write is not write_atomically:
        content = tmp_path / "written"
        content.write_bytes(b"new")
    with pytest.raises(PermissionError, match=r"it is read-only: .*model"):
        write(path, content)
    assert path.read_bytes() == b"old"


def test_a_pipe_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PermissionError, match="a pipe or a device"):
        write_atomically(tmp_path / "pipe", b"new")
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("length", [221, 222, 255])
def test_every_name_that_the_disk_takes(tmp_path, length):
    path = tmp_path / ("n" * length)
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_said_with_the_file(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*model'"):
        write_atomically(tmp_path / "model", b"new")
    with pytest.raises(ModelFileError, match=r"model can't be written: No space left .* is finished stays"):
        write_tensors(tmp_path / "model", {"a": torch.zeros(1)}, {})


WRITING = """
import os, sys
from pathlib import Path
from nescio._files import write_atomically
def wait(*_):
    print("writing", flush=True)
    sys.stdin.readline()
os.fsync = wait
write_atomically(Path(sys.argv[1]), b"of the other")
"""


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    path = tmp_path / "model"
    command = [sys.executable, "-c", WRITING, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    killed, living = subprocess.Popen(command, **pipes), subprocess.Popen(command, **pipes)
    for process in (killed, living):
        assert process.stdout.readline() == "writing\n"
    killed.kill()
    killed.communicate()
    (tmp_path / ".model-of-somebody").write_text("no file of ours")
    assert len(list(tmp_path.iterdir())) == 3
    write_atomically(path, b"ours")
    assert len(list(tmp_path.iterdir())) == 3
    living.communicate("\n")
    assert living.returncode == 0
    assert path.read_bytes() == b"of the other"
    assert sorted(each.name for each in tmp_path.iterdir()) == [".model-of-somebody", "model"]


def test_of_several_that_create_a_file_one_does(tmp_path):
    path = tmp_path / "new" / "settings.json"
    barrier = threading.Barrier(8)

    def create(number):
        barrier.wait()
        return create_atomically(path, str(number).encode())

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(create, range(8)))
    assert sum(made) == 1
    assert path.read_text() == str(made.index(True))
    assert list(path.parent.iterdir()) == [path]


def test_a_disk_without_links_creates_too(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    assert create_atomically(tmp_path / "f", b"first")
    assert not create_atomically(tmp_path / "f", b"second")
    assert (tmp_path / "f").read_bytes() == b"first"


def test_without_locks_only_old_leftovers_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "fcntl", None)
    old, fresh = tmp_path / f".f-{'0' * 32}", tmp_path / f".f-{'1' * 32}"
    for path in (old, fresh):
        path.write_bytes(b"")
    os.utime(old, (0, 0))
    remove_leftovers(tmp_path / "f")
    assert list(tmp_path.iterdir()) == [fresh]
    write_atomically(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"new"


def test_what_is_moved_into_place_is_on_the_disk_before(tmp_path, monkeypatch):
    written, path = tmp_path / "aside", tmp_path / "file"
    written.write_bytes(b"new")
    written.chmod(0o444)
    path.write_bytes(b"old")
    seen = []
    flush = os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: [seen.append(path.read_bytes()), flush(number)])
    move_atomically(written, path)
    assert seen == [b"old"]
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_torch_is_not_waited_for():
    code = "import sys, nescio._files, nescio._fetch.store; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_tensors_come_back_with_their_header(tmp_path):
    shared = torch.arange(4.0)
    tensors = {"a": shared, "b": shared, "c": torch.tensor(3, dtype=torch.int64)}
    write_tensors(tmp_path / "t", tensors, {"list": [1], "text": "\u00fc"})
    found, header = read_tensors(tmp_path / "t")
    assert header == {"list": [1], "text": "\u00fc"}
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)


def write_raw(path, **metadata):
    save_file({"a": torch.zeros(2)}, path, metadata=metadata or None)


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (lambda path: None, "there is no file"),
        (lambda path: path.write_bytes(b"text"), "is damaged or no safetensors file"),
        (lambda path: write_raw(path), "was not written by nescio"),
        (lambda path: write_raw(path, nescio="{"), "was not written by nescio"),
        (lambda path: write_raw(path, nescio=json.dumps({"header": [], "sha256": ""})), "is no table"),
        (lambda path: write_raw(path, nescio=json.dumps({"header": {}, "sha256": ""})), "its digest"),
    ],
)
def test_what_is_no_file_of_ours_is_refused(tmp_path, write, reason):
    write(tmp_path / "t")
    with pytest.raises(ModelFileError, match=reason):
        read_tensors(tmp_path / "t")


def test_a_digest_is_of_names_kinds_shapes_and_values():
    tensors = {"a": torch.zeros(2), "b": torch.ones(3)}
    expected = digest(tensors)
    assert digest(dict(reversed(tensors.items()))) == expected
    others = [
        {"a": torch.zeros(2)},
        tensors | {"a": torch.zeros(2, dtype=torch.float64)},
        tensors | {"a": torch.zeros(1, 2)},
        tensors | {"a": torch.tensor([0.0, 1.0])},
        {"a": tensors["b"], "b": tensors["a"]},
    ]
    found = {digest(each) for each in others}
    assert len(found) == len(others)
    assert expected not in found
    assert digest(tensors, "text") != expected


def test_names_below_a_prefix():
    tensors = {"module.0.weight": torch.zeros(1), "modules": torch.ones(1)}
    assert list(named(tensors, "module")) == ["0.weight"]


def test_whole_numbers_of_numpy_in_a_header(tmp_path):
    write_tensors(tmp_path / "a", {"x": torch.zeros(2)}, {"seed": np.int64(3), "sizes": [np.uint8(4)]})
    assert read_tensors(tmp_path / "a").header == {"seed": 3, "sizes": [4]}
