import pytest
from tests.studies.small import one

from nescio.errors import DataError
from nescio.studies.results import Result, ResultSet, find, mixed, read_results
from nescio.studies.runner import store_in
from nescio.studies.store import Store


@pytest.fixture
def made():
    return ResultSet(
        [
            Result("a", "x", 1, {"known": {"scores": {"accuracy": 0.5}}}),
            Result("a", "x", 0, {"known": {"scores": {"accuracy": 0.7}}, "ood": {}}),
            Result("a", "y", 0, {"ood": {}}),
            Result("b", "x", 0, {"known": {"scores": None}}),
        ]
    )


def test_looking_up(made):
    assert [each.seed for each in made.of("a", "x")] == [0, 1]
    assert made.values("a", "x", "known", "scores", "accuracy") == [0.7, 0.5]
    assert made.mean("a", "x", "known", "scores", "accuracy") == pytest.approx(0.6)
    assert len(made.numbers("a", "x", "ood")) == 1


def test_what_is_not_there(made):
    assert made.of("a", "z") == []
    assert made.mean("a", "y", "known", "scores", "accuracy") is None
    assert made.values("b", "x", "known", "scores", "accuracy") == []
    assert made.mean(None, "x", "known", "scores") is None
    assert made.arms("a", "known", ["y", "x"]) == ["x"]


def test_find():
    assert find({"a": {"b": 1}}, ("a", "b")) == 1
    assert find({"a": None}, ("a", "b")) is None
    assert find({"a": {}}, ("a", "b")) is None


def test_read_from_a_store(folder):
    (result,) = read_results([one("edl")], store_in(folder))
    assert (result.comparison, result.arm, result.seed) == ("digits", "edl", 0)
    assert set(result.numbers) == set(result.settings) == set(result.provenance)
    assert result.settings["pgd"]["steps"] == 2
    assert result.training == one("edl").plan.description()
    assert result.provenance["known"]["for"] == "digits/edl-0"
    assert result.provenance["known"]["training_seconds"] > 0


def test_results_of_different_networks_are_listed():
    alike = Result("a", "x", 0, provenance={"known": {"training_seconds": 1.5}, "ood": {"weights": "a"}})
    other = Result("a", "x", 1, provenance={"known": {"weights": "a"}, "ood": {"weights": "b"}})
    assert mixed([alike, other, Result("a", "x", 2)]) == [other]


def test_an_experiment_without_results_is_left_out(tmp_path):
    assert read_results([one("edl")], Store(tmp_path)) == []


def test_a_damaged_record_is_named(tmp_path):
    store = Store(tmp_path)
    path = store.path(one("edl").plan, one("edl").measurements[0])
    path.write_text("{")
    with pytest.raises(DataError, match=f"{path.name} is damaged"):
        read_results([one("edl")], store)
