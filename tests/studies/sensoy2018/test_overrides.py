import pytest
from tests.studies.small import EVALUATION

from nescio.errors import InputError
from nescio.studies.sensoy2018._overrides import Overrides


def test_the_later_have_the_last_word():
    first = Overrides({"a": 1, "b": 2}, {"c": 3}, evaluation={"known": 1}, source=Overrides({"e": 6}))
    second = Overrides({"b": 4}, training={"d": 5}, evaluation={"ood": 2})
    assert first.then(second) == Overrides(
        {"a": 1, "b": 4}, {"c": 3}, {"d": 5}, {"known": 1, "ood": 2}, Overrides({"e": 6})
    )
    assert first.then(None) is first


def test_what_networks_are_asked():
    assert Overrides().applied_to(EVALUATION) == EVALUATION
    assert Overrides(evaluation={"attacked": 7}).applied_to(EVALUATION).attacked == 7
    with pytest.raises(InputError, match="settings do not fit EvalConfig"):
        Overrides(evaluation={"atacked": 7}).applied_to(EVALUATION)
