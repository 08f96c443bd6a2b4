"""The options of `nescio train` that say how to train."""

import pytest

from nescio import InputError
from nescio.cli._training import parse_class_weight


def test_class_weights_as_they_are_typed():
    assert parse_class_weight(None) is None
    assert parse_class_weight("balanced") == "balanced"
    assert parse_class_weight("1,5,2.5") == [1, 5, 2.5]
    with pytest.raises(InputError, match=r"--class-weight must be balanced, or .* such as 1,5,2, got '1;2'"):
        parse_class_weight("1;2")
