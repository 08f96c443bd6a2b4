import pytest

import nescio as ev
from nescio.training import TrainingSettings


@pytest.mark.parametrize(
    "bad",
    [
        {"epochs": 0},
        {"epochs": 1.5},
        {"batch_size": 0},
        {"learning_rate": 0.0},
        {"schedule": "step"},
        {"precision": "int8"},
        {"shift": -1},
        {"patience": 0},
        {"patience": 1.5},
        {"seed": -1},
        {"seed": 2**32},
        {"seed": True},
        {"epochs": True},
        {"shift": 0.5},
        {"learning_rate": "fast"},
        {"learning_rate": True},
        {"flip": "no"},
        {"flip": 1},
        {"learning_rate": float("nan")},
    ],
)
def test_settings_that_can_not_be(bad):
    with pytest.raises(ev.InputError, match=r"must be|can't be"):
        TrainingSettings(**bad)
