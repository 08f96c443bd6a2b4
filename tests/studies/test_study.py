import pytest
from tests.studies.small import DIGITS, MEASURED, one

from nescio.errors import InputError
from nescio.studies.study import Study, require_names


@pytest.fixture
def study():
    return Study("small", tuple(DIGITS.experiments()))


def test_names_tell_experiments_apart(study):
    names = [each.name for each in study.experiments]
    assert len(names) == len(set(names))
    assert one("edl", 1).name == "digits/edl-1"


def test_an_experiment_with_some_of_its_measurements():
    edl = one("edl")
    assert [each.name for each in edl.measurements] == list(MEASURED)
    assert [each.name for each in edl.measuring(("pgd", "known")).measurements] == ["known", "pgd"]
    assert edl.measuring(()).measurements == ()


def test_a_part_of_a_study(study):
    assert study.select() == study
    assert {each.arm for each in study.select(arms=["l2", "edl"]).experiments} == {"l2", "edl"}
    assert study.select(["mnist"]).experiments == ()
    assert len(study.select(["digits"], ["dropout"]).experiments) == 1


def test_names_that_are_not_known():
    require_names("sets", ["a"], ["a", "b"])
    with pytest.raises(InputError, match="sets must be of a, b, got 'c'"):
        require_names("sets", ["a", "c"], ["a", "b"])
