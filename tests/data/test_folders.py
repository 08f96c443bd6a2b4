import os

import pytest

from nescio.data._folders import class_folders, files_in, holds_only, state_of
from nescio.errors import DataError


def made(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    return folder


def test_files_and_classes_but_hidden_ones(tmp_path):
    made(tmp_path, "b/2.txt", "a/1.txt", "a/.3.txt", ".c/4.txt", "5.txt", "a/Thumbs.db")
    assert [file.as_posix() for file in files_in(tmp_path)] == ["5.txt", "a/1.txt", "b/2.txt"]
    assert class_folders(tmp_path) == ["a", "b"]


def test_a_look_at_what_is_there(tmp_path):
    made(tmp_path / "texts", "a/1.TXT", "b/2.csv")
    made(tmp_path / "mixed", "a/1.txt", "b/2.png")
    made(tmp_path / "none", "a/1.csv")
    found = [holds_only(tmp_path / name, (".txt",), (".png",)) for name in ("texts", "mixed", "none")]
    assert found == [True, False, False]


def test_linked_folders_are_looked_into_and_those_that_lead_back_are_not(tmp_path):
    made(tmp_path / "elsewhere", "1.txt", "inner/2.txt")
    photos = made(tmp_path / "photos", "dog/3.txt")
    (photos / "cat").symlink_to(tmp_path / "elsewhere")
    (photos / "pet").symlink_to(tmp_path / "elsewhere")
    (photos / "dog" / "up").symlink_to(photos)
    (tmp_path / "elsewhere" / "inner" / "round").symlink_to(photos)
    names = [file.as_posix() for file in files_in(photos)]
    assert names == ["cat/1.txt", "cat/inner/2.txt", "dog/3.txt", "pet/1.txt", "pet/inner/2.txt"]
    assert class_folders(photos) == ["cat", "dog", "pet"]


def test_a_link_that_leads_nowhere_has_a_state(tmp_path):
    (tmp_path / "a.png").symlink_to(tmp_path / "gone.png")
    assert state_of(tmp_path / "a.png").st_size == (tmp_path / "a.png").lstat().st_size
    assert state_of(made(tmp_path, "b.txt") / "b.txt").st_size == 1


def test_a_folder_that_may_not_be_read_is_an_error(tmp_path, monkeypatch):
    made(tmp_path, "a/1.txt", "b/2.txt")
    scan = os.scandir

    def refusing(place):
        if os.path.basename(place) == "b":
            raise PermissionError(13, "Permission denied", place)
        return scan(place)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(DataError, match=r"b can't be read: Permission denied"):
        files_in(tmp_path)
