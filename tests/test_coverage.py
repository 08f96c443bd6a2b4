"""What the tests themselves measure."""

import sys

import pytest
from coverage import Coverage


@pytest.mark.unmeasured
def test_what_is_unmeasured_is_not_measured():
    assert Coverage.current() is None
    assert "coverage" not in type(sys.gettrace()).__module__
