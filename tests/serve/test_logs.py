"""What is logged, as text and as JSON."""

import json
import logging
import re

from tests.serve.helpers import pair, pictures

from nescio.serve._logs import JSONFormatter, TextFormatter
from nescio.serve.app import create_app


def test_each_request_is_logged_where_it_is_wanted(ask, caplog):
    caplog.set_level(logging.INFO, "nescio.serve.access")
    body = {"inputs": pictures(1).tolist()}
    ask("POST", "/v1/opinions?models=edl", app=create_app(pair()), json=body)
    assert caplog.records == []
    app = create_app(pair(), access_log=True)
    ask("POST", "/v1/opinions?models=edl", app=app, json=body)
    ask("GET", "/no%0Athing", app=app)
    first, second = caplog.records
    assert re.fullmatch(r"127\.0\.0\.1 POST /v1/opinions 200 \d+\.\d{4} s", first.getMessage())
    entry = json.loads(JSONFormatter().format(second))
    assert (entry["method"], entry["path"], entry["status"]) == ("GET", "/no%0Athing", 404)
    assert 0 <= entry["seconds"] < 60
    assert (entry["level"], entry["logger"]) == ("INFO", "nescio.serve.access")


def test_an_error_has_its_traceback():
    try:
        raise ZeroDivisionError("no\nhalves")
    except ZeroDivisionError as error:
        details = (type(error), error, error.__traceback__)
    record = logging.LogRecord("nescio.serve", logging.ERROR, "", 0, "worker %d", (7,), details)
    record.created = 0.25
    record.msecs = 250.0
    line = JSONFormatter().format(record)
    assert len(line.splitlines()) == 1
    entry = json.loads(line)
    assert entry["time"] == "1970-01-01T00:00:00.250Z"
    assert entry["message"] == "worker 7"
    assert "ZeroDivisionError: no\nhalves" in entry["traceback"]
    text = TextFormatter().format(record)
    assert text.startswith("1970-01-01T00:00:00.250Z ERROR worker 7\nTraceback")
