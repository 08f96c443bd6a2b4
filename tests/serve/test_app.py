"""The application in this process: its paths."""

import asyncio
from dataclasses import replace
from urllib.parse import unquote

import pytest
from tests.serve.helpers import PICTURE, pair, pictures, reason, untrained

from nescio.errors import InputError
from nescio.methods import EDL
from nescio.posthoc.abstention import AbstentionRule
from nescio.serve.app import create_app


def test_the_list_of_models(ask):
    models = pair()
    rule = AbstentionRule.for_coverage(models["edl"].predict(pictures(50)[:, None]), None, 0.5)
    by_entropy = replace(rule, measure="entropy")
    models["ruled"] = models["edl"].with_rule(rule)
    models["other"] = models["edl"].with_rule(by_entropy)
    described = ask("GET", "/v1/models", app=create_app(models)).json()["models"]
    assert [model["name"] for model in described] == ["edl", "softmax", "ruled", "other"]
    assert described[0] == {
        "name": "edl",
        "kind": "images",
        "method": "edl",
        "about": EDL.about,
        "encoder": "lenet",
        "trained_on": None,
        "classes": ["cat", "dog", "owl"],
        "input_shape": [1, 16, 16],
        "resize": "stretch",
        "max_length": None,
        "columns": None,
        "evidential": True,
        "prior": 1.0,
        "posthoc": None,
        "rule": None,
        "sets": None,
        "threshold": 0.5,
        "runtime": "torch",
    }
    assert described[1]["evidential"] is False
    assert described[1]["prior"] is None
    assert described[2]["threshold"] == pytest.approx(rule.threshold)
    assert described[2]["rule"] == rule.describe()
    assert described[3]["threshold"] is None
    assert described[3]["rule"] == by_entropy.describe()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/../app.py", 404),
        ("GET", "/%2e%2e/app.py", 404),
        ("GET", "/v1/opinions", 405),
        ("POST", "/v1/models", 405),
        ("OPTIONS", "/v1/opinions", 405),
    ],
)
def test_other_paths_and_methods(ask, method, path, status):
    response = ask(method, path)
    assert response.status_code == status
    assert reason(response)
    if status == 405:
        assert response.headers["allow"]


@pytest.mark.parametrize("path", ["/docs/", "/.", "/./", "/%2e", "//elsewhere"])
def test_nobody_is_sent_elsewhere(path):
    """By the path as it comes: a client would shorten some of these itself."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.disconnect"}

    headers = [(b"host", b"elsewhere")]
    scope = {"type": "http", "method": "GET", "path": unquote(path), "query_string": b"", "headers": headers}
    asyncio.run(create_app(pair())(scope, receive, send))
    assert sent[0]["status"] == 404
    assert b"location" not in dict(sent[0]["headers"])


def test_the_page(ask):
    response = ask("GET", "/")
    assert response.status_code == 200
    assert "<title>" in response.text
    assert response.text == ask("GET", "/index.html").text


def test_page_files_are_asked_for_again(ask):
    assert ask("GET", "/main.js").headers["cache-control"] == "no-cache"


def test_health(ask):
    assert (ask("HEAD", "/healthz").status_code, ask("HEAD", "/healthz").content) == (200, b"")
    assert ask("GET", "/healthz").json() == {"status": "ok"}
    assert ask("GET", "/readyz").json() == {"status": "ready"}


def test_mounted_elsewhere_it_answers_too(ask):
    from starlette.applications import Starlette
    from starlette.routing import Mount

    outer = Starlette(routes=[Mount("/models", create_app(pair()))])
    response = ask("POST", "/models/v1/opinions", app=outer, json={"inputs": pictures(1).tolist()})
    assert response.status_code == 200
    assert len(response.json()["results"]) == 2


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        ({}, "models must be one or more models by name, got none"),
        ({"": untrained(PICTURE, EDL())}, "models must be named by texts, got the name ''"),
        ({"edl": "model.safetensors"}, "models must be of TrainedModel, got str for 'edl'"),
    ],
)
def test_what_can_not_be_served(models, expected):
    with pytest.raises(InputError, match=f"^{expected}$"):
        create_app(models)
