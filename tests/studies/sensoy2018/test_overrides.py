import pytest
from tests.studies.small import EVALUATION

from nescio.errors import InputError
from nescio.studies.sensoy2018._overrides import Overrides


def test_the_later_have_the_last_word():
    first = Overrides({"a": 1, "b": 2}, {"c": 3}, held_out=5, evaluation={"known": 1})
    second = Overrides({"b": 4}, training={"d": 5}, seeds=2, evaluation={"ood": 2})
    assert first.then(second) == Overrides(
        {"a": 1, "b": 4}, {"c": 3}, {"d": 5}, {"known": 1, "ood": 2}, held_out=5, seeds=2
    )
    assert first.then(None) is first


def test_zero_overrides_and_none_does_not():
    base = Overrides(held_out=5, seeds=3, source=Overrides(held_out=1))
    assert base.then(Overrides(held_out=0, seeds=0)).held_out == 0
    assert base.then(Overrides(seeds=0)).seeds == 0
    assert base.then(Overrides()) == base


def test_what_networks_are_asked():
    assert Overrides().applied_to(EVALUATION) == EVALUATION
    assert Overrides(evaluation={"attacked": 7}).applied_to(EVALUATION).attacked == 7
    with pytest.raises(InputError, match="settings do not fit EvalConfig"):
        Overrides(evaluation={"atacked": 7}).applied_to(EVALUATION)
