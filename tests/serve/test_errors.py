"""RequestError: what the client sees."""

import json

from nescio import NescioError
from nescio.serve._errors import RequestError, too_busy, too_late


def test_a_status_and_one_line():
    error = RequestError(422, "inputs must be a list")
    response = error.response()
    assert isinstance(error, NescioError)
    assert response.status_code == 422
    assert json.loads(response.body) == {"error": "inputs must be a list"}
    assert not {"retry-after", "connection"} & set(response.headers)


def test_headers_where_they_are_needed():
    response = RequestError(503, "no", retry_after=3, closes_connection=True).response()
    assert response.headers["retry-after"] == "3"
    assert response.headers["connection"] == "close"


def test_who_comes_too_early_or_too_late_may_come_again():
    for error in (too_busy(), too_late()):
        assert (error.status, error.retry_after) == (503, 1)
        assert "try again" in str(error)
