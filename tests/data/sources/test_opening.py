"""From a path or a name to its source, and kinds that others bring."""

import numpy as np
import pytest
import torch
from PIL import Image

from nescio.data import (
    Dataset,
    Input,
    Labels,
    Place,
    Source,
    Table,
    open_source,
    open_sources,
    register_source,
)
from nescio.data.sources import SOURCES
from nescio.errors import DataError, InputError, NescioWarning


@pytest.fixture
def photos(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for index in range(3):
            Image.new("L", (8, 10), 20 * index).save(tmp_path / "photos" / name / f"{index}.png")
    return tmp_path / "photos"


def test_places_are_told_apart(photos, tmp_path):
    (tmp_path / "a.csv").write_text("x,label\n1,a\n2,b\n")
    np.savez(tmp_path / "d.npz", features=np.eye(2), labels=[0, 1])
    kinds = [type(open_source(path).labelled()) for path in (photos, tmp_path / "a.csv", tmp_path / "d.npz")]
    assert kinds == [Dataset, Table, Table]
    with pytest.raises(InputError, match=r"there is no file or folder .*missing\.txt, nor a data set"):
        open_source(tmp_path / "missing.txt")


def test_a_name_of_the_catalog_wins_over_a_folder(photos, monkeypatch):
    photos.rename(photos.parent / "digits")
    monkeypatch.chdir(photos.parent)
    with pytest.warns(NescioWarning, match=r"digits is the data set of that name, .*: write ./digits for"):
        assert len(open_source("digits", split="train")) == 4000
    with pytest.warns(NescioWarning, match="not what lies here under it"):
        assert len(open_source("digits")) == 1000
    assert len(open_source("./digits")) == 6


def test_options_that_go_with_each(photos, tmp_path):
    (tmp_path / "A.CSV").write_text("x,label\n1,3\n2,4\n")
    assert open_source(tmp_path / "A.CSV", label="x").labelled().classes == ("1", "2")
    assert open_source(photos, size=5, strict=True).labelled().images.shape == (6, 1, 5, 5)
    assert open_source(photos, size=None, strict=False, label=None).labelled().images.shape == (6, 1, 10, 8)


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("photos", {"label": "x"}, "label goes with a table, not with photos"),
        ("a.csv", {"size": 5}, r"size goes with a folder of pictures, not with a\.csv"),
        ("a.csv", {"strict": True}, "strict goes with a folder"),
        ("d.npz", {"strict": True}, "strict goes with a folder"),
        ("d.npz", {"label": "x"}, "label goes with a table"),
        ("d.npz", {"drop": ["x"]}, "drop goes with a table"),
        ("d.npz", {"text": "x"}, "text goes with a table"),
        ("a.csv", {"drop": "x"}, "drop must be a list of columns, got 'x'"),
        (
            "a.csv",
            {"split": "test"},
            "split goes with a data set of the catalog, or a folder of pictures or texts",
        ),
    ],
)
def test_options_that_would_be_ignored_are_refused(photos, tmp_path, name, options, reason):
    (tmp_path / "a.csv").write_text("x,label\n1,a\n2,b\n")
    np.savez(tmp_path / "d.npz", features=np.eye(2), labels=[0, 1])
    with pytest.raises(InputError, match=reason):
        open_source(tmp_path / name, **options)


def test_several_places_are_one_source(photos, tmp_path):
    (tmp_path / "a.csv").write_text("x,label\n1,a\n2,b\n")
    (tmp_path / "bad.npz").write_text("broken")
    (tmp_path / "empty").mkdir()
    source = open_sources(
        [photos / "cat" / "0.png", tmp_path / "a.csv", tmp_path / "bad.npz", tmp_path / "empty"]
    )
    inputs = source.read(range(len(source)))
    names = [photos / "cat" / "0.png", f"{tmp_path / 'a.csv'}:1", f"{tmp_path / 'a.csv'}:2"]
    assert [one.name for one in inputs] == [
        str(name) for name in (*names, tmp_path / "bad.npz", tmp_path / "empty")
    ]
    assert [one.error is None for one in inputs] == [True, True, True, False, False]
    assert "not an .npz file" in inputs[3].error
    assert "holds nothing to read" in inputs[4].error
    assert source.read([2])[0].value.cells == ("2", "b")
    with pytest.raises(InputError, match="there is no file or folder"):
        open_sources([tmp_path / "a.csv", tmp_path / "none.csv"])
    with pytest.raises(InputError, match="one or more places"):
        open_sources([])


def test_the_fingerprint_of_several_is_of_all(tmp_path):
    (tmp_path / "a.csv").write_text("1,2\n")
    (tmp_path / "b.csv").write_text("3,4\n")
    both = [tmp_path / "a.csv", tmp_path / "b.csv"]
    before = open_sources(both).fingerprint()
    assert open_sources(both).fingerprint() == before
    assert open_sources(both[::-1]).fingerprint() != before
    (tmp_path / "b.csv").write_text("3,5\n")
    assert open_sources(both).fingerprint() != before


def test_places_relative_to_a_folder(photos):
    (one,) = open_sources([Place("cat/0.png", folder=photos)]).read([0])
    assert one.name == "cat/0.png"
    assert one.value.pixels(1, (10, 8)).unique().tolist() == [0]
    folder = open_sources([Place("cat", folder=photos)])
    assert [each.name for each in folder.read(range(3))] == ["cat/0.png", "cat/1.png", "cat/2.png"]


class Lines(Source):
    """A text file whose lines are `label: number number ...`."""

    kind = "lines"
    about = "files of lines"

    def __init__(self, place):
        self.name = place.path.stem
        self._place = place
        self._lines = [line.split(": ") for line in place.read_bytes().decode().splitlines()]

    @classmethod
    def recognises(cls, place):
        return place.suffix == ".lines"

    @classmethod
    def open(cls, place, **_):
        return cls(place)

    def __len__(self):
        return len(self._lines)

    def read(self, indices):
        numbers = [[float(number) for number in self._lines[index][1].split()] for index in indices]
        return [
            Input(f"{self._place.name}:{i + 1}", torch.tensor(row))
            for i, row in zip(indices, numbers, strict=True)
        ]

    def fingerprint(self):
        return self._place.digest()

    @property
    def labels(self):
        names = [line[0] for line in self._lines]
        classes = tuple(sorted(set(names)))
        return Labels(torch.tensor([classes.index(name) for name in names]), classes)


@pytest.fixture
def with_lines():
    register_source(Lines)
    yield
    del SOURCES._items["lines"]


def test_a_kind_of_ones_own(with_lines, tmp_path):
    (tmp_path / "x.lines").write_text("cat: 1 2\ndog: 3 4\n")
    source = open_source(tmp_path / "x.lines")
    data = source.labelled()
    assert (data.features.tolist(), data.classes, data.name) == ([[1, 2], [3, 4]], ("cat", "dog"), "x")
    assert len(open_source("sent.lines", b"cat: 1 2")) == 1


def test_kinds_that_can_not_be_registered():
    with pytest.raises(InputError, match="must be a subclass of Source"):
        SOURCES.register("text", str)
    with pytest.raises(InputError, match="calls itself 'lines', but is registered as 'text'"):
        SOURCES.register("text", Lines)


def test_an_error_in_labelled_data_is_named():
    class Broken(Lines):
        def read(self, indices):
            return [Input("a", None, "is broken") for _ in indices]

    with pytest.raises(DataError, match="a: is broken"):
        Broken(Place("x.lines", b"cat: 1 2\ndog: 3 4\n")).labelled()
