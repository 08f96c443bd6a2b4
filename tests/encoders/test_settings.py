import pytest

from nescio.encoders import MLPSpec
from nescio.encoders._settings import require_dropout, whole_numbers
from nescio.errors import InputError


def test_lists_of_whole_numbers_become_tuples():
    assert whole_numbers("hidden", [3, 4]) == (3, 4)
    assert whole_numbers("hidden", ()) == ()


@pytest.mark.parametrize("values", [[0], [1.5], [True], ["3"]])
def test_what_is_no_list_of_whole_numbers(values):
    with pytest.raises(InputError, match="hidden must be a whole number from 1 on, got"):
        whole_numbers("hidden", values)


@pytest.mark.parametrize("share", [0, 0.0, 0.5, 0.999])
def test_a_share_of_dropout(share):
    require_dropout(share)
    assert MLPSpec(4, 2, dropout=share).dropout == share


@pytest.mark.parametrize("share", [1, -0.1, "0.5", None, float("nan")])
def test_what_is_no_share(share):
    with pytest.raises(InputError, match="dropout must be 0 or more and below 1, got"):
        require_dropout(share)
