"""What holds for every answer."""

import asyncio

import pytest
from tests.serve.helpers import pair, pictures, reason

from nescio.serve import _service
from nescio.serve._service import Service
from nescio.serve.app import create_app


def test_an_unforeseen_error_is_one_line(ask, monkeypatch, caplog):
    models = pair()
    app = create_app(models)
    monkeypatch.setattr(_service, "answers_of", lambda *_: 1 / 0)
    response = ask("POST", "/v1/opinions", app=app, json={"inputs": pictures(1).tolist()})
    assert response.status_code == 500
    assert reason(response) == "something went wrong in the service; its log says what"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "ZeroDivisionError" in caplog.text
    monkeypatch.undo()
    after = ask("POST", "/v1/opinions", app=create_app(models), json={"inputs": pictures(1).tolist()})
    assert after.status_code == 200


def test_an_unforeseen_error_elsewhere_is_one_line_too(ask, monkeypatch):
    app = create_app(pair())
    monkeypatch.setattr(Service, "is_full", property(lambda _: 1 / 0))
    response = ask("GET", "/readyz", app=app)
    assert response.status_code == 500
    assert reason(response) == "something went wrong in the service; its log says what"


@pytest.mark.parametrize(
    "path", ["/", "/docs", "/v1/models", "/healthz", "/metrics", "/nothing", "/v1/opinions"]
)
def test_every_answer_has_the_headers(ask, path):
    headers = ask("GET", path, headers={"origin": "http://elsewhere"}).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert not any(word in policy for word in ("unsafe", "data:", "blob:", "*"))
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert not any(name.startswith("access-control") for name in headers)


def test_a_gone_client_leaves_nothing_behind(caplog):
    app = create_app(pair())

    async def receive():
        return {"type": "http.disconnect"}

    async def send(_):
        raise AssertionError("there is nobody to answer")

    scope = {"type": "http", "method": "POST", "path": "/v1/opinions", "headers": []}
    asyncio.run(app(scope, receive, send))
    assert caplog.text == ""
