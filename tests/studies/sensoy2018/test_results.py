import json
import math

import pytest
import torch
from tests.studies.sensoy2018.small import one

from nescio.errors import DataError
from nescio.studies.sensoy2018 import results
from nescio.studies.sensoy2018.results import (
    Result,
    differing,
    new_result,
    plain,
    processor,
    read_result,
    read_results,
    write_result,
)


@pytest.fixture
def result():
    numbers = {
        "curve": torch.tensor([0.5, 0.25]),
        "none": math.nan,
        "name": "a [b, c]",
        "deep": [[1, 2], [3]],
    }
    return new_result(one("edl")).with_part("known", {"images": (1, 2)}, numbers, 1.234)


def test_written_and_read(result, tmp_path):
    write_result(tmp_path / "results" / "digits" / "edl-0.json", result)
    again = read_result(tmp_path / "results" / "digits" / "edl-0.json")
    assert again == result
    assert again.numbers("known") == {
        "curve": [0.5, 0.25],
        "none": None,
        "name": "a [b, c]",
        "deep": [[1, 2], [3]],
    }
    assert again.numbers("strangers") is None
    assert read_results(tmp_path) == [result]


def test_lists_of_numbers_take_one_line(result, tmp_path):
    write_result(tmp_path / "one.json", result)
    text = (tmp_path / "one.json").read_text()
    assert '"curve": [0.5, 0.25]' in text
    assert '"filters": [6, 8]' in text
    assert json.loads(text)["format"] == 1


def test_what_depends_on_the_machine_is_kept_apart(result):
    data = result.to_dict()
    assert set(data["made"]) == {"versions", "hardware", "seconds"}
    assert set(data["made"]["hardware"]) == {"processor", "cores", "threads"}
    assert data["made"]["hardware"]["threads"] == torch.get_num_threads()
    assert data["made"]["versions"]["torch"] == torch.__version__
    assert data["made"]["seconds"] == {"known": 1.23}
    rest = json.dumps({name: value for name, value in data.items() if name != "made"})
    assert processor() not in rest
    assert "1.23" not in rest


def test_a_part_that_was_measured_elsewhere_says_so(result, monkeypatch):
    here = {"versions": result.made["versions"], "hardware": result.made["hardware"]}
    there = {**here, "hardware": {"processor": "another", "cores": 64, "threads": 64}}
    monkeypatch.setattr(results, "surroundings", lambda: there)
    later = result.with_part("pgd", {}, {}, 5.0)
    assert {name: later.made[name] for name in here} == here
    assert later.made["elsewhere"] == {"pgd": there}
    assert later.made["seconds"] == {"known": 1.23, "pgd": 5.0}
    monkeypatch.setattr(results, "surroundings", lambda: here)
    assert "elsewhere" not in later.with_part("pgd", {}, {}, 5.0).made


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is damaged"),
        ("[1]", "is damaged"),
        ("{}", "is damaged"),
        ('{"format": 1, "study": "digits"}', "is damaged"),
        ('{"format": 7}', "has format 7, this version of nescio reads 1"),
    ],
)
def test_a_file_that_is_no_result(tmp_path, content, reason):
    (tmp_path / "bad.json").write_text(content)
    with pytest.raises(DataError, match=reason):
        read_result(tmp_path / "bad.json")


def test_no_file(tmp_path):
    with pytest.raises(DataError, match=r"gone\.json is damaged"):
        read_result(tmp_path / "gone.json")
    assert read_results(tmp_path) == []


def test_differing_settings_are_named():
    before = plain(one("edl").description())
    now = plain(one("edl", 1).description())
    now["method"]["evidence"] = "relu"
    assert sorted(differing(before, now)) == ["method.evidence", "training.seed"]
    assert differing(before, before) == []


def test_a_setting_that_came_later_was_at_its_default_before():
    before, now = (plain(one("edl").description()) for _ in range(2))
    del before["method"]["output_bias"]
    assert differing(before, now) == []
    now["method"]["output_bias"] = 1.0
    assert differing(before, now) == ["method.output_bias"]
    del before["training"]["shift"]
    assert differing(before, now) == ["method.output_bias", "training.shift"]


def test_infinity_is_no_number():
    assert plain({"a": float("inf"), 1: (2.0, True, None)}) == {"a": None, "1": [2.0, True, None]}


def test_a_result_is_a_value():
    assert Result("a", "b", 0, {}) == Result("a", "b", 0, {})
