import numpy as np
import pytest

from nescio.data.arguments import check_whole
from nescio.errors import InputError


@pytest.mark.parametrize("value", [1, 5, np.int64(3)])
def test_whole_numbers_in_range_pass(value):
    assert check_whole("count", value, least=1, most=5) is None


@pytest.mark.parametrize("value", [1.0, "1", None, True, np.float32(1)])
def test_what_is_no_whole_number(value):
    with pytest.raises(InputError, match=r"^count must be a whole number, got "):
        check_whole("count", value, least=0)


def test_what_is_out_of_range():
    with pytest.raises(InputError, match=r"^count must be 1\.\.5, got 6$"):
        check_whole("count", 6, least=1, most=5)
    with pytest.raises(InputError, match=r"^count must be at least 1, got 0$"):
        check_whole("count", 0, least=1)
