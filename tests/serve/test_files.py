"""Model files that change."""

import pytest

from nescio.errors import ModelFileError
from nescio.serve._files import ModelFiles


def test_a_change_is_seen_once_it_is_steady(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"one")
    files = ModelFiles({"model": path})
    assert not files.have_changed()
    path.write_bytes(b"longer")
    assert not files.have_changed()  # it may still be being written
    assert files.have_changed()
    files.mark_as_read()
    assert not files.have_changed()
    path.unlink()
    assert not files.have_changed()  # it may be about to be replaced
    assert files.have_changed()
    files.mark_as_read()
    assert [files.have_changed() for _ in range(3)] == [False] * 3  # that it is missing was said once
    path.write_bytes(b"longer")
    files.have_changed()
    assert files.have_changed()


def test_copies_do_not_follow(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"one")
    files = ModelFiles({"model": path})
    copies = files.copy_to(tmp_path / "copies")
    path.write_bytes(b"two")
    assert copies["model"].read_bytes() == b"one"
    assert files.in_words(Exception(f"{copies['model']} is damaged"), copies) == f"{path} is damaged"
    path.unlink()
    with pytest.raises(ModelFileError, match=r"there is no file .*model\.safetensors"):
        files.copy_to(tmp_path / "more")
