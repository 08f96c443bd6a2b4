import inspect

import pytest

from nescio import errors


def test_every_error_has_one_base_and_stands_in_the_tree():
    for name, error in inspect.getmembers(errors, inspect.isclass):
        if name.endswith("Error"):
            assert issubclass(error, errors.NescioError)
            assert name in errors.__doc__


@pytest.mark.parametrize(
    ("error", "usual"),
    [(errors.InputError, ValueError), (errors.MissingExtraError, ImportError)],
)
def test_errors_are_what_callers_catch_usually(error, usual):
    assert issubclass(error, usual)
    assert not issubclass(errors.DataError, usual)


def test_missing_extra_says_what_to_install():
    message = str(errors.MissingExtraError("demo", "matplotlib"))
    assert message == "matplotlib is not installed; install it with: pip install 'nescio[demo]'"
