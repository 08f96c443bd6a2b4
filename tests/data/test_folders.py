from nescio.data.sources._folders import class_folders, files_in, holds_only


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
