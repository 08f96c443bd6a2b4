import pytest
import torch

from nescio.data import Place, Texts, open_source, open_sources
from nescio.data.sources._base import Labels
from nescio.data.sources._texts import TextFolder, TextSource
from nescio.errors import DataError, InputError, NescioWarning


@pytest.fixture
def folder(tmp_path):
    for kind, texts in {"greet": ["hello", "good day"], "leave": ["bye\nbye"]}.items():
        (tmp_path / "talk" / kind).mkdir(parents=True)
        for number, text in enumerate(texts):
            (tmp_path / "talk" / kind / f"{number}.txt").write_text(text)
    return tmp_path / "talk"


def contents(source):
    return [one.value.content for one in source.read(range(len(source)))]


def test_texts_in_memory():
    texts = Texts(("hello", "bye"), torch.tensor([0, 1]), ("a", "b"), "talk", "question")
    source = TextSource.of(texts)
    assert contents(source) == ["hello", "bye"]
    assert [one.name for one in source.read([1, 0])] == ["talk:2", "talk:1"]
    again = source.labelled()
    assert (again.texts, again.classes, again.column) == (texts.texts, texts.classes, "question")
    assert TextSource(["a", "b"]).read([1])[0].name == "2"
    with pytest.raises(DataError, match="talk has no labels; texts have none"):
        TextSource(["a"], "talk").labelled()


def test_the_fingerprint_is_of_the_texts():
    found = {TextSource(texts).fingerprint() for texts in (["ab", "c"], ["a", "bc"], ["ab"], ["abc"])}
    assert len(found) == 4
    assert TextSource(["a"], "x").fingerprint() == TextSource(["a"], "y", Labels(1, ())).fingerprint()


def test_a_file_with_a_text_a_line():
    source = open_source("t/q.txt", b"\xef\xbb\xbfhello\r\n\r\n  bye \n")
    assert contents(source) == ["hello", "bye"]
    assert [one.name for one in source.read([0, 1])] == ["t/q.txt:1", "t/q.txt:2"]
    assert source.labels is None
    assert source.fingerprint() != open_source("q.txt", b"hello\nbye").fingerprint()
    with pytest.raises(DataError, match=r"q\.txt is empty, where a text a line was expected"):
        open_source("q.txt", b" \n\n")
    with pytest.raises(DataError, match=r"q\.txt can't be read: it is not a text file"):
        open_source("q.txt", b"hello\n" * 500 + b"\0")
    assert not isinstance(open_source("q.txt", b"\x89PNG"), TextSource)
    with pytest.warns(NescioWarning, match=r"q\.txt is not in UTF-8 and is read as Latin-1"):
        assert contents(open_source("q.txt", b"gr\xfc\xdf dich")) == ["grüß dich"]


def test_a_folder_with_a_text_a_file(folder):
    source = open_source(folder)
    assert isinstance(source, TextFolder)
    assert contents(source) == ["hello", "good day", "bye\nbye"]
    assert source.read([2])[0].name == str(folder / "leave" / "0.txt")
    texts = source.labelled()
    assert (texts.texts, texts.labels.tolist()) == (("hello", "good day", "bye\nbye"), [0, 0, 1])
    assert (texts.classes, texts.name) == (("greet", "leave"), "talk")


def test_a_folder_that_changes_has_another_fingerprint(folder):
    before = open_source(folder).fingerprint()
    assert open_source(folder).fingerprint() == before
    (folder / "leave" / "1.txt").write_text("so long")
    assert open_source(folder).fingerprint() != before


def test_empty_and_unreadable_texts_are_passed_over_and_said(folder):
    (folder / "greet" / "2.txt").write_text(" \n")
    (folder / "leave" / "9.txt").write_bytes(b"\0\0")
    source = open_source(folder)
    reason = (
        r"2 of 5 texts in .* are empty or can't be read and are passed over; the first: .*2\.txt is empty"
    )
    with pytest.warns(NescioWarning, match=reason):
        assert len(source.labelled()) == 3
    with pytest.raises(DataError, match="2 of 5 texts"):
        open_source(folder, strict=True).labelled()
    last = source.read([4])[0]
    assert (last.value, last.error) == (None, "9.txt can't be read: it is not a text file")


def test_a_mistyped_file_is_no_text():
    with pytest.raises(InputError, match=r"there is no file questions\.csv"):
        open_sources(["questions.csv"], takes_texts=True)
    assert contents(open_sources(["is it in questions.csv"], takes_texts=True)) == ["is it in questions.csv"]


def test_folders_that_can_not_be_trained_on(folder, tmp_path):
    (folder / "third").mkdir()
    with pytest.raises(DataError, match=r"class folder third in .* holds no text"):
        open_source(folder).labelled()
    (folder / "loose.txt").write_text("hello")
    assert open_source(folder).labels is None
    with pytest.raises(DataError, match="needs two or more class folders, and every text in one of them"):
        open_source(folder).labelled()
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat" / "a.txt").write_text("hello")
    assert contents(open_source(tmp_path / "flat")) == ["hello"]


def test_a_folder_with_pictures_is_one_of_pictures(folder):
    (folder / "greet" / "a.png").write_bytes(b"no picture")
    assert not isinstance(open_source(folder), TextFolder)


def test_a_string_is_a_text_where_texts_are_taken(folder):
    long = "why " * 5000
    source = open_sources(["hello you", str(folder), Place("q.txt", b"bye"), long], takes_texts=True)
    assert contents(source) == ["hello you", "hello", "good day", "bye\nbye", "bye", long]
    names = [one.name for one in source.read([0, 5])]
    assert names == ["hello you", "why " * 15 + "..."]
    with pytest.raises(InputError, match="there is no file or folder hello you"):
        open_sources(["hello you"])
