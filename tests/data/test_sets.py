import json
import os

import pytest
import torch

from nescio.data import Table, Texts, load, open_source
from nescio.data._sets import read_clinc, read_clinc_out_of_scope, read_keel, read_orange
from nescio.errors import DataError, FetchError


def test_questions_in_scope_and_out_of_it(tmp_path):
    path = tmp_path / "data_full.json"
    content = {"train": [["hi", "greet"], ["bye", "leave"], ["hey", "greet"]], "oos_test": [["why", "oos"]]}
    path.write_text(json.dumps(content))
    texts = read_clinc(path, "clinc150", "train")
    assert (texts.texts, texts.labels.tolist()) == (("hi", "bye", "hey"), [0, 1, 0])
    assert (texts.classes, texts.name) == (("greet", "leave"), "clinc150")
    others = read_clinc_out_of_scope(path, "clinc150-oos", "test")
    assert (others.texts, others.classes, others.name) == (("why",), ("oos",), "clinc150-oos")
    with pytest.raises(DataError, match=r"data_full\.json: questions and intents expected under 'val'"):
        read_clinc(path, "clinc150", "val")


def test_a_file_of_orange(tmp_path):
    path = tmp_path / "news.tab"
    path.write_text('Category\tText\nd\tstring\nclass\t\n\nsci\ta "quoted\tword\nart\tblue \n')
    texts = read_orange(path, "news", "train")
    assert texts.texts == ('a "quoted\tword', "blue ")
    assert [texts.classes[label] for label in texts.labels] == ["sci", "art"]


def test_a_file_of_keel_in_two_parts(tmp_path):
    path = tmp_path / "small.dat"
    path.write_text("".join(f"{row}, {row * row}, {'AB'[row % 2]}\n" for row in range(20)))
    train, test = (read_keel(path, "small", part) for part in ("train", "test"))
    assert (len(train), len(test)) == (16, 4)
    both = torch.cat([train.features, test.features])[:, 0].sort().values
    assert both.tolist() == list(range(20))
    assert (train.classes, train.schema.has_names) == (("A", "B"), False)
    path.write_text("1, x, A\n2, 3, B\n")
    with pytest.raises(DataError, match="numbers expected, and a label at the end of each line"):
        read_keel(path, "small", "train")


@pytest.mark.network
@pytest.mark.parametrize(
    ("name", "sizes", "features", "num_classes"),
    [
        ("letter", (16_000, 4_000), 16, 26),
        ("satimage", (5_148, 1_287), 36, 6),
        ("penbased", (8_794, 2_198), 16, 10),
    ],
)
def test_tables_of_the_catalog(registry, name, sizes, features, num_classes):
    train, test = load_or_tell(registry, name, "train"), load_or_tell(registry, name, "test")
    assert isinstance(train, Table)
    assert (len(train), len(test)) == sizes
    assert (train.features.shape[1], len(train.classes)) == (features, num_classes)


@pytest.mark.network
def test_newsgroups(registry):
    train, test = (load_or_tell(registry, "20newsgroups", part) for part in ("train", "test"))
    assert isinstance(train, Texts)
    assert (len(train), len(test), len(train.classes)) == (11_293, 7_528, 20)
    assert train.classes == test.classes


def load_or_tell(registry, name, split):
    try:
        return load(name, split)
    except FetchError as error:
        registry(str(error))


CLINC150 = os.environ.get("NESCIO_DATA")  # the tests' own environment does without


@pytest.mark.skipif(not CLINC150, reason="CLINC150 is in no registry: NESCIO_DATA must name its folder")
def test_clinc150(monkeypatch):
    monkeypatch.setenv("NESCIO_DATA", CLINC150)
    sizes = [len(load("clinc150", split)) for split in ("train", "val", "test")]
    assert sizes == [15_000, 3_000, 4_500]
    assert [len(load("clinc150-oos", split)) for split in ("train", "val", "test")] == [100, 100, 1_000]
    source = open_source("clinc150-oos")
    assert (len(source), source.labels.classes) == (1_000, ("oos",))
    assert len(load("clinc150").classes) == 150
