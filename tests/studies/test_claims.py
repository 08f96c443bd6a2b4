import pytest

from nescio.studies._claims import MARKS, NOT_REPRODUCED, PARTLY, REPRODUCED, Verdict, grade


@pytest.mark.parametrize(
    ("whole", "part", "mark"),
    [
        (True, True, REPRODUCED),
        (True, False, REPRODUCED),
        (False, True, PARTLY),
        (False, False, NOT_REPRODUCED),
    ],
)
def test_grade(whole, part, mark):
    assert grade(whole, part, "why") == Verdict(mark, "why")
    assert mark in MARKS
