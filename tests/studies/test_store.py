import json
import math
from pathlib import Path

import pytest
import torch
from tests.studies.small import measurement, one

from nescio.errors import DataError
from nescio.studies.store import (
    NUMBERS_DIGEST,
    PROVENANCE,
    Record,
    Store,
    _file_name_of,
    _read_record,
    _to_json,
    of_other_network,
    of_several_networks,
    surroundings,
)

EDL = one("edl")
KNOWN = measurement(EDL, "known")


@pytest.fixture
def record():
    numbers = {
        "curve": torch.tensor([0.5, 0.25]),
        "none": math.nan,
        "name": "a [b, c]",
        "deep": [[1, 2], [3]],
    }
    return Record(KNOWN.settings(), EDL.plan.description(), numbers, {"for": "digits/edl-0"})


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def test_written_and_read(store, record):
    assert not store.has(EDL.plan, KNOWN)
    assert store.read(EDL.plan, KNOWN) is None
    path = store.write(record)
    assert path == store.path(EDL.plan, KNOWN)
    assert store.has(EDL.plan, KNOWN)
    again = store.read(EDL.plan, KNOWN)
    assert again.numbers == {"curve": [0.5, 0.25], "none": None, "name": "a [b, c]", "deep": [[1, 2], [3]]}
    assert again.provenance == {"for": "digits/edl-0"}
    assert store.paths() == [path]


def test_it_is_filed_under_all_that_it_depends_on(store):
    paths = {
        store.path(EDL.plan, KNOWN),
        store.path(one("edl", 1).plan, KNOWN),
        store.path(one("l2").plan, KNOWN),
        store.path(EDL.plan, type(KNOWN)(**{**vars(KNOWN), "images": 199})),
        store.path(EDL.plan, measurement(EDL, "ood")),
    }
    assert len(paths) == 5
    assert store.path(EDL.plan, KNOWN).name.startswith("known-")


def test_a_former_version_is_read_until_the_present_one_is_there(store, record, monkeypatch):
    store.write(record)
    monkeypatch.setattr(type(KNOWN), "version", KNOWN.version + 1)
    assert store.read(EDL.plan, KNOWN) is None
    monkeypatch.setattr(type(KNOWN), "former_versions", (KNOWN.version - 1,))
    assert store.read(EDL.plan, KNOWN).measurement["version"] == KNOWN.version - 1
    assert not store.has(EDL.plan, KNOWN)  # it is to be measured
    store.write(Record(KNOWN.settings(), EDL.plan.description(), {"accuracy": 1.0}))
    assert store.read(EDL.plan, KNOWN).numbers == {"accuracy": 1.0}


def test_a_record_is_written_once(store, record):
    path = store.write(record)
    before = path.read_bytes()
    store.write(Record(record.measurement, record.training, {"other": 1}))
    assert path.read_bytes() == before


def test_a_record_is_replaced_where_that_is_asked(store, record):
    path = store.write(record)
    assert store.write(Record(record.measurement, record.training, {"other": 1}), replace=True) == path
    assert store.read(EDL.plan, KNOWN).numbers == {"other": 1}


@pytest.mark.parametrize(
    ("other", "is_other"),
    [
        ({"weights": "a", "training_seconds": 2.0}, False),  # trained again to the same weights
        ({"weights": "b", "training_seconds": 1.0}, True),
        ({"training_seconds": 1.0}, False),
        ({"training_seconds": 1.01}, True),
        ({}, False),
    ],
)
def test_records_are_of_one_network_by_weights_else_by_seconds(other, is_other):
    one_network = {"weights": "a", "training_seconds": 1.0}
    assert of_other_network(one_network, other) == is_other
    assert of_other_network(other, one_network) == is_other
    assert of_several_networks([{}, one_network, other]) == is_other


def test_a_file_says_first_what_it_is_and_takes_a_line_for_a_list(record):
    text = _to_json(record)
    assert list(json.loads(text)) == [
        "format",
        "measurement",
        "training",
        "numbers",
        NUMBERS_DIGEST,
        PROVENANCE,
    ]
    assert '"curve": [0.5, 0.25]' in text
    assert '"filters": [4, 6]' in text
    assert text.endswith("}\n")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is damaged"),
        ("[1]", "is damaged"),
        ("{}", "is damaged"),
        ('{"format": 3, "numbers": {}}', "is damaged"),
        ('{"format": 7}', "has format 7, this version of nescio reads 3"),
    ],
)
def test_a_file_that_is_no_record(tmp_path, content, reason):
    (tmp_path / "bad.json").write_text(content)
    with pytest.raises(DataError, match=reason):
        _read_record(tmp_path / "bad.json")


def test_no_file(tmp_path):
    with pytest.raises(DataError, match=r"gone\.json is damaged"):
        _read_record(tmp_path / "gone.json")


def test_a_file_whose_settings_were_edited_is_refused(store, record):
    path = store.write(record)
    path.write_text(path.read_text().replace('"images": 200', '"images": 300'))
    with pytest.raises(DataError, match="is not what its name says"):
        store.read(EDL.plan, KNOWN)


def test_a_file_whose_numbers_were_edited_is_refused(store, record):
    path = store.write(record)
    content = json.loads(path.read_text())
    name = next(iter(content["numbers"]))
    content["numbers"][name] = 0.123
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match="its numbers do not have the digest that it says; remove it"):
        _read_record(path)


def test_the_name_depends_on_settings_alone(record):
    other = Record(record.measurement, record.training, {}, surroundings())
    assert other.file_name == record.file_name == _file_name_of(record.measurement, record.training)


def test_surroundings():
    found = surroundings()
    assert set(found) == {"versions", "hardware"}
    assert found["versions"]["torch"] == torch.__version__
    assert found["hardware"]["threads"] == torch.get_num_threads()
    assert found["hardware"]["processor"]


def test_the_committed_records_are_whole():
    paths = sorted((Path(__file__).parents[2] / "results" / "paper" / "store").glob("*.json"))
    assert paths
    for path in paths:
        assert _read_record(path).file_name == path.name
