import pytest

from nescio.errors import InputError
from nescio.studies.successors._sets import ALL_ARMS, SETS
from nescio.studies.successors.experiments import plan, study_of


def test_all_of_it():
    expected = 0
    for each in SETS.values():
        expected += 3 * len(each.arms)
    assert len(study_of().experiments) == expected
    assert len({each.plan.digest for each in study_of().experiments}) == expected


def test_a_part_of_it():
    names = [each.name for each in plan(seeds=1, only=["clinc150"], methods=["edl", "red"])]
    assert names == ["clinc150/edl-0", "clinc150/red-0"]
    assert len(plan(seeds=2, only=["letter"])) == 2 * len(ALL_ARMS)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"only": ["imagenet"]}, "only must be of letter"),
        ({"methods": ["sngp"]}, "methods must be of softmax"),
        ({"seeds": 0}, "seeds must be a whole number from 1 on"),
        ({"only": ["cifar5-lenet"], "methods": ["red"]}, "has nothing for cifar5-lenet, red together"),
    ],
)
def test_what_there_is_not(given, message):
    with pytest.raises(InputError, match=message):
        plan(**given)
