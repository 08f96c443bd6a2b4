import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from nescio._files import digest, move_atomically, named, read_tensors, write_atomically, write_tensors
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
