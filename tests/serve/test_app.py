"""The application in this process: what it answers, and what it refuses."""

import asyncio
import io
import json
import os
import struct
import subprocess
import sys
import threading
import tracemalloc
import zlib
from dataclasses import replace

import httpx
import pytest
import torch
from tests.serve.helpers import COLOUR, PICTURE, ROWS, encoded, pair, pictures, untrained

from nescio.methods import EDL, Softmax
from nescio.posthoc.abstention import AbstentionRule
from nescio.serve import _parsing
from nescio.serve._errors import RequestError
from nescio.serve._models import ServedModel
from nescio.serve._parsing import parse_json
from nescio.serve._service import Service
from nescio.serve.app import create_app
from nescio.serve.limits import Limits

JSON = {"content-type": "application/json"}
FORM = "multipart/form-data; boundary=x"
FIELD = b'--x\r\nContent-Disposition: form-data; name="models"\r\n\r\nedl\r\n--x--\r\n'


@pytest.fixture
def ask():
    """One request to an application, by default with the pair."""

    def call(method, path, *, app=None, **content):
        async def exchange():
            transport = httpx.ASGITransport(app or create_app(pair()), raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                return await client.request(method, path, **content)

        return asyncio.run(exchange())

    return call


def reason(response):
    """The one line of a refusal, which never tells of files or code."""
    assert list(response.json()) == ["error"]
    line = response.json()["error"]
    assert len(line.splitlines()) == 1
    assert not any(word in line for word in ("Traceback", "/src", ".py", "object at 0x"))
    return line


def test_opinions_are_those_of_the_models(ask):
    models, inputs = pair(), pictures(3)
    response = ask("POST", "/v1/opinions", app=create_app(models), json={"inputs": inputs.tolist()})
    assert response.status_code == 200
    assert [result["model"] for result in response.json()["results"]] == ["edl", "softmax"]
    for result in response.json()["results"]:
        model = models[result["model"]]
        prediction = model.predict(inputs[:, None])
        accepted = model.accepts(prediction).tolist()
        for index, opinion in enumerate(result["opinions"]):
            best = model.classes[prediction.labels[index]]
            assert opinion["best"] == best
            assert opinion["accepted"] == accepted[index]
            assert opinion["label"] == (best if accepted[index] else None)
            assert opinion["answer"] == (best if accepted[index] else "I do not know")
            assert opinion["probabilities"] == pytest.approx(prediction.probabilities[index].tolist())
            assert opinion["uncertainty"] == pytest.approx(prediction.uncertainty[index].item())
            assert opinion["entropy"] == pytest.approx(prediction.entropy(normalized=True)[index].item())
    edl, softmax = (result["opinions"][0] for result in response.json()["results"])
    assert sum(edl["belief"]) + edl["uncertainty"] == pytest.approx(1, abs=1e-5)
    assert softmax["belief"] is None


def test_every_way_to_send_a_picture_gives_the_same(ask):
    picture = pictures(1)[0]
    exact = picture.tolist()
    bodies = [
        {"json": {"inputs": [exact]}},
        {"json": {"inputs": [[exact]]}},
        {"json": {"inputs": [[[float(pixel) for pixel in row] for row in exact]]}},
        {"files": [("files", ("a.png", encoded(picture), "image/png"))]},
        {"files": [("files", ("a.bin", encoded(picture, "BMP"), "application/octet-stream"))]},
    ]
    results = [ask("POST", "/v1/opinions", **body).json()["results"] for body in bodies]
    for other in results[1:]:
        assert other[0]["opinions"][0]["probabilities"] == pytest.approx(
            results[0][0]["opinions"][0]["probabilities"], rel=1e-5
        )


def test_models_can_be_chosen(ask):
    inputs = pictures(2).tolist()
    response = ask("POST", "/v1/opinions", json={"inputs": inputs, "models": ["softmax", "softmax"]})
    assert [result["model"] for result in response.json()["results"]] == ["softmax"]
    files = [("files", ("a.png", encoded(pictures(1)[0]), "image/png"))] * 3
    response = ask("POST", "/v1/opinions", files=files, data={"models": ["softmax", "edl"]})
    assert [result["model"] for result in response.json()["results"]] == ["softmax", "edl"]
    assert [len(result["opinions"]) for result in response.json()["results"]] == [3, 3]


def test_models_of_other_shapes_side_by_side(ask):
    app = create_app({"grey": untrained(PICTURE, EDL()), "colour": untrained(COLOUR, Softmax())})
    response = ask(
        "POST", "/v1/opinions", app=app, files=[("files", ("a.png", encoded(pictures(1)[0]), "image/png"))]
    )
    assert [result["model"] for result in response.json()["results"]] == ["grey", "colour"]
    response = ask("POST", "/v1/opinions", app=app, json={"inputs": pictures(1).tolist()})
    assert response.status_code == 422
    assert reason(response) == "inputs must be 3 x 16 x 20, got 16 x 16"


def test_rows_of_numbers(ask):
    model = untrained(ROWS, EDL())
    rows = [[0.5, -2, 3e5, 1e-9], [0, 0, 0, 0]]
    response = ask("POST", "/v1/opinions", app=create_app({"table": model}), json={"inputs": rows})
    (result,) = response.json()["results"]
    expected = model.predict(torch.tensor(rows)).uncertainty.tolist()
    assert [opinion["uncertainty"] for opinion in result["opinions"]] == pytest.approx(expected)
    files = [("files", ("a.png", encoded(pictures(1)[0]), "image/png"))]
    response = ask("POST", "/v1/opinions", app=create_app({"table": model}), files=files)
    assert response.status_code == 422
    assert "rows of numbers" in reason(response)


def test_values_that_a_network_can_not_take(ask):
    for method in (EDL(), Softmax()):
        model = untrained(ROWS, method)
        with torch.no_grad():
            for weights in model.module.parameters():
                weights.mul_(1e3)
        app = create_app({"table": model})
        response = ask("POST", "/v1/opinions", app=app, json={"inputs": [[3.4e38, -3.4e38, 3.4e38, 3.4e38]]})
        assert response.status_code == 422
        assert "the model table can't take the inputs" in reason(response)


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
        "method": "edl",
        "about": EDL.about,
        "classes": ["cat", "dog", "owl"],
        "input_shape": [1, 16, 16],
        "evidential": True,
        "rule": None,
        "threshold": 0.5,
    }
    assert described[1]["evidential"] is False
    assert described[2]["threshold"] == pytest.approx(rule.threshold)
    assert described[2]["rule"] == rule.describe()
    assert described[3]["threshold"] is None
    assert described[3]["rule"] == by_entropy.describe()


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 400, "the body is empty"),
        (b"{", 400, "the body is not JSON"),
        (b"\xff\xfe", 400, "the body is not JSON"),
        (b"[" * 100_000, 400, "the body is not JSON"),
        (b'{"inputs": [[NaN]]}', 400, "the body is not JSON"),
        (b'{"inputs": [[-Infinity]]}', 400, "the body is not JSON"),
        (b"[]", 422, "the body must be"),
        (b"null", 422, "the body must be"),
        (b'{"input": [[1]]}', 422, "the body must be"),
        (b'{"inputs": [[1]], "model": "edl"}', 422, "the body must be"),
        (b'{"inputs": 1}', 422, "inputs must be a list"),
        (b'{"inputs": []}', 422, "there must be 1 to 10,000 inputs, got 0"),
        (b'{"inputs": [1, 2]}', 422, "inputs must be 1 x 16 x 16, got one number"),
        (b'{"inputs": [[1, 2]]}', 422, "inputs must be 1 x 16 x 16, got 2"),
        (b'{"inputs": [[[]]]}', 422, "inputs must be 1 x 16 x 16, got 1 x 0"),
        (b'{"inputs": [[1, 2], [1]]}', 422, "all of one shape"),
        (b'{"inputs": [[[1, 2], [1]]]}', 422, "all of one shape"),
        (b'{"inputs": [[["1"]]]}', 422, "arrays of numbers"),
        (b'{"inputs": [[[null]]]}', 422, "arrays of numbers"),
        (b'{"inputs": [[[{}]]]}', 422, "arrays of numbers"),
        (b'{"inputs": [{}]}', 422, "arrays of numbers"),
        (b'{"inputs": [[{"0": 1}]]}', 422, "arrays of numbers"),
        (b'{"inputs": [[[1], 100000000000]]}', 422, "all of one shape"),
        (b'{"inputs": [[[1]], 100000000000]}', 422, "all of one shape"),
        (b'{"inputs": [[[[1]]]]}', 422, "inputs must be 1 x 16 x 16, got 1 x 1 x 1"),
        (b'{"inputs": [[[true]]]}', 422, "arrays of numbers"),
        (b'{"inputs": [[[1, false]]]}', 422, "arrays of numbers"),
        (b'{"inputs": [[[1, true]]]}', 422, "arrays of numbers"),
        (b'{"inputs": [[[1, "2"]]]}', 422, "arrays of numbers"),
        (b'{"inputs": [[1e999]]}', 422, "finite numbers"),
        (b'{"inputs": [[1e300]]}', 422, "finite numbers"),
        (b'{"inputs": [[1' + b"0" * 400 + b"]]}", 422, "numbers"),
        (b'{"inputs": [[1]], "models": "edl"}', 422, "models must be a list of names"),
        (b'{"inputs": [[1]], "models": [1]}', 422, "models must be a list of names"),
        (b'{"inputs": [[1]], "models": null}', 422, "models must be a list of names"),
        (b'{"inputs": [[1]], "models": []}', 422, "models must name one or more"),
        (
            b'{"inputs": [[1]], "models": ["edl", "gpt"]}',
            404,
            "there is no such model; there are: edl, softmax",
        ),
    ],
)
def test_bad_json(ask, body, status, words):
    response = ask("POST", "/v1/opinions", content=body, headers=JSON)
    assert (response.status_code, words in reason(response)) == (status, True), response.text


@pytest.mark.parametrize("pixel", [-1, 256, 255.5, -0.001, 1e30])
def test_pixels_have_a_range(ask, pixel):
    picture = pictures(1)[0].tolist()
    picture[3][4] = pixel
    response = ask("POST", "/v1/opinions", json={"inputs": [picture]})
    assert response.status_code == 422
    assert "pixels must be 0 to 255" in reason(response)


def test_too_many_inputs(ask):
    body = json.dumps({"inputs": [[0]] * 10_001})
    response = ask("POST", "/v1/opinions", content=body, headers=JSON)
    assert response.status_code == 422
    assert reason(response) == "there must be 1 to 10,000 inputs, got 10,001"
    files = [("files", ("a.png", b"x", "image/png"))] * 4
    response = ask("POST", "/v1/opinions", files=files, app=create_app(pair(), Limits(max_inputs=3)))
    assert response.status_code == 422
    assert reason(response) == "there must be 1 to 3 inputs, got more"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "image/png", ""])
def test_other_content_types(ask, kind):
    response = ask("POST", "/v1/opinions", content=b"x", headers={"content-type": kind})
    assert response.status_code == 415
    assert reason(response) == "send application/json or multipart/form-data"


def huge_png():
    """A PNG whose header says 50,000 x 50,000."""

    def chunk(name, content):
        return (
            struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        )

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 50_000, 50_000, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (b"these are words", 422, "is not a PNG"),
        (b"", 422, "is not a PNG"),
        (encoded(pictures(1)[0], "JPEG")[:-60], 422, "is damaged"),
        (encoded(pictures(1)[0])[:90], 422, "is damaged"),
        (huge_png(), 413, "pixels"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 422, "is not a PNG"),
    ],
)
def test_bad_pictures(ask, content, status, words):
    response = ask("POST", "/v1/opinions", files=[("files", ("a.png", content, "image/png"))])
    assert response.status_code == status
    assert words in reason(response)


@pytest.mark.parametrize(
    "inputs",
    [
        ["a" * 20_000, *[""] * 3000],
        [[["a" * 20_000, *[None] * 3000]]],
        [[[0] * 2000], ["a" * 20_000] * 2000],
    ],
)
def test_words_among_the_inputs_cost_no_memory(inputs):
    body = json.dumps({"inputs": inputs}).encode()
    tracemalloc.start()
    try:
        with pytest.raises(RequestError, match="arrays of numbers"):
            parse_json(body, Limits())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 10 * len(body) + 2**20


def test_lists_without_end_are_not_even_read(monkeypatch):
    monkeypatch.setattr(_parsing, "MAX_LISTS", 1000)
    monkeypatch.setattr(_parsing, "from_json", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(RequestError, match="too many lists; at most 1,000") as refused:
        parse_json(json.dumps({"inputs": [[]] * 1001}).encode(), Limits())
    assert refused.value.status == 413


def test_what_inputs_would_become_has_a_limit(ask, monkeypatch):
    # For each of the two models, an input is 256 pixels, and each of the three classes weighs 16.
    app = create_app(pair(), Limits(max_values=3 * 2 * (256 + 3 * 16)))
    file = ("files", ("a.png", encoded(pictures(1)[0][:1, :1]), "image/png"))
    assert ask("POST", "/v1/opinions", app=app, files=[file] * 3).status_code == 200
    assert ask("POST", "/v1/opinions", app=app, json={"inputs": pictures(3).tolist()}).status_code == 200
    assert ask("POST", "/v1/opinions", app=app, files=[file] * 6, data={"models": "edl"}).status_code == 200
    monkeypatch.setattr(_parsing, "read_picture", lambda *_: pytest.fail("a picture was decoded"))
    for content in ({"files": [file] * 4}, {"json": {"inputs": pictures(4).tolist()}}):
        response = ask("POST", "/v1/opinions", app=app, **content)
        assert response.status_code == 413
        assert reason(response) == "too many inputs for models of this size; at most 3 at once"


def test_who_waits_for_the_reader_has_a_bound_and_a_deadline(monkeypatch):
    app, started, free = (
        create_app(pair(), Limits(max_decoding=3, answer_timeout=0.2)),
        threading.Event(),
        threading.Event(),
    )

    def slow(*words):
        started.set()
        assert free.wait(10)
        return read_picture(*words)

    read_picture = _parsing.read_picture
    monkeypatch.setattr(_parsing, "read_picture", slow)
    file = [("files", ("a.png", encoded(pictures(1)[0]), "image/png"))]

    async def scenario():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            waiting = [asyncio.create_task(client.post("/v1/opinions", files=file)) for _ in range(3)]
            while not started.is_set():
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            refused = await client.post("/v1/opinions", files=file), await client.get("/readyz")
            small = await client.post("/v1/opinions", json={"inputs": pictures(1).tolist()})
            await asyncio.sleep(0.3)
            free.set()
            late = [await one for one in waiting]
            after = await client.post("/v1/opinions", files=file), await client.get("/readyz")
            return refused, small, late, after

    refused, small, late, after = asyncio.run(scenario())
    assert [one.status_code for one in (*refused, small, *after)] == [503, 503, 200, 200, 200]
    assert refused[0].headers["retry-after"] == "1"
    assert [one.status_code for one in late] == [503, 503, 503]
    assert {reason(one) for one in late} == {"the answer took too long; try again"}


def test_room_is_taken_before_it_is_needed_and_given_back(monkeypatch):
    weight = 2 * (256 + 3 * 16)
    app, started, free = (
        create_app(pair(), Limits(max_values=4 * weight)),
        threading.Event(),
        threading.Event(),
    )
    decoded = []

    def slow(*words):
        started.set()
        assert free.wait(10)
        decoded.append(words)
        return read_picture(*words)

    read_picture = _parsing.read_picture
    monkeypatch.setattr(_parsing, "read_picture", slow)
    file = ("files", ("a.png", encoded(pictures(1)[0]), "image/png"))

    async def scenario():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            first = asyncio.create_task(client.post("/v1/opinions", files=[file] * 3))
            while not started.is_set():
                await asyncio.sleep(0.01)
            second = await client.post("/v1/opinions", files=[file] * 2)
            one = await client.post("/v1/opinions", json={"inputs": pictures(1).tolist()})
            free.set()
            return [second, one, await first, await client.post("/v1/opinions", files=[file] * 4)]

    answers = asyncio.run(scenario())
    assert [answer.status_code for answer in answers] == [503, 200, 200, 200]
    assert answers[0].headers["retry-after"] == "1"
    assert len(decoded) == 3 + 4


def test_pictures_have_a_number_of_pixels_in_all(ask):
    app = create_app(pair(), Limits(max_pixels=600))
    file = ("files", ("a.png", encoded(pictures(1)[0]), "image/png"))
    assert ask("POST", "/v1/opinions", app=app, files=[file] * 2).status_code == 200
    response = ask("POST", "/v1/opinions", app=app, files=[file] * 3)
    assert response.status_code == 413
    assert "at most 600 in all" in reason(response)


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        ({"files": [("other", ("a.png", b"x", "image/png"))]}, 422, "no others"),
        ({"files": [("files", (None, b"x"))]}, 422, "with a file name"),
        ({"files": [("models", ("a.png", b"x", "image/png"))]}, 422, "models must be names"),
        ({"files": [("models", (None, b"edl"))]}, 422, "1 to 10,000 inputs, got 0"),
        ({"content": b"--x--", "headers": {"content-type": "multipart/form-data"}}, 400, "boundary"),
        ({"content": b"junk", "headers": {"content-type": "multipart/form-data; boundary=x"}}, 400, "form"),
        ({"content": FIELD, "headers": {"content-type": f"{FORM}; charset=undefined"}}, 400, "charset"),
        ({"content": FIELD, "headers": {"content-type": f"{FORM}; charset=no-such"}}, 422, "got 0"),
    ],
)
def test_bad_forms(ask, content, status, words):
    response = ask("POST", "/v1/opinions", **content)
    assert (response.status_code, words in reason(response)) == (status, True), response.text


def test_a_large_upload_stays_in_memory(ask, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("an upload went to the disk")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    monkeypatch.setattr("tempfile.SpooledTemporaryFile.rollover", refuse)
    large = torch.randint(256, (1500, 1500), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    content = encoded(large)
    assert len(content) > 2**21
    response = ask("POST", "/v1/opinions", files=[("files", ("a.png", content, "image/png"))])
    assert response.status_code == 200


def test_a_body_over_the_limit_is_not_read_on(ask):
    app, sent = create_app(pair(), Limits(max_body=10_000)), 0

    async def endless():
        nonlocal sent
        while True:
            sent += 1000
            yield bytes(1000)

    response = ask("POST", "/v1/opinions", app=app, content=endless(), headers=JSON)
    assert response.status_code == 413
    assert "at most" in reason(response)
    assert sent < 13_000
    announced = JSON | {"content-length": str(10**9)}
    sent = 0
    assert ask("POST", "/v1/opinions", app=app, content=endless(), headers=announced).status_code == 413
    assert sent <= 1000
    assert ask("POST", "/v1/opinions", app=app, json={"inputs": pictures(1).tolist()}).status_code == 200


def test_bodies_together_have_a_limit():
    app = create_app(pair(), Limits(max_body=3000, max_total_body=3000))

    async def scenario():
        goes_on = asyncio.Event()

        async def slow():
            yield b'{"inputs": [' + b" " * 2500
            await goes_on.wait()
            yield b"]}"

        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            first = asyncio.create_task(client.post("/v1/opinions", content=slow(), headers=JSON))
            await asyncio.sleep(0.05)
            second = await client.post("/v1/opinions", content=b" " * 1000, headers=JSON)
            goes_on.set()
            await first
            third = await client.post("/v1/opinions", json={"inputs": pictures(1).tolist()})
            return second, third

    second, third = asyncio.run(scenario())
    assert (second.status_code, second.headers["retry-after"]) == (503, "1")
    assert second.headers["connection"] == "close"  # what is left of the body is not read
    assert third.status_code == 200


def test_a_slow_body_is_given_up(ask):
    async def slow():
        yield b"{"
        await asyncio.sleep(30)
        yield b"}"

    app = create_app(pair(), Limits(read_timeout=0.1))
    response = ask("POST", "/v1/opinions", app=app, content=slow(), headers=JSON)
    assert response.status_code == 408
    assert reason(response) == "the body took longer than 0.1 s to arrive"


def test_an_unforeseen_error_is_one_line(ask, monkeypatch, caplog):
    models = pair()
    app = create_app(models)
    monkeypatch.setattr(ServedModel, "opinions", lambda *_: 1 / 0)
    response = ask("POST", "/v1/opinions", app=app, json={"inputs": pictures(1).tolist()})
    assert response.status_code == 500
    assert reason(response) == "something went wrong in the service; its log says what"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "ZeroDivisionError" in caplog.text
    monkeypatch.undo()
    after = ask("POST", "/v1/opinions", app=create_app(models), json={"inputs": pictures(1).tolist()})
    assert after.status_code == 200


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


def test_an_unforeseen_error_elsewhere_is_one_line_too(ask, monkeypatch):
    app = create_app(pair())
    monkeypatch.setattr(Service, "is_full", property(lambda _: 1 / 0))
    response = ask("GET", "/readyz", app=app)
    assert response.status_code == 500
    assert reason(response) == "something went wrong in the service; its log says what"


def test_nobody_is_sent_elsewhere(ask):
    response = ask("GET", "/docs/", headers={"host": "elsewhere"})
    assert response.status_code == 404
    assert "location" not in response.headers


def test_page_files_are_asked_for_again(ask):
    assert ask("GET", "/main.js").headers["cache-control"] == "no-cache"


def test_health(ask):
    assert (ask("HEAD", "/healthz").status_code, ask("HEAD", "/healthz").content) == (200, b"")
    assert ask("GET", "/healthz").json() == {"status": "ok"}
    assert ask("GET", "/readyz").json() == {"status": "ready"}


def test_metrics(ask):
    app = create_app(pair())
    ask("POST", "/v1/opinions", app=app, json={"inputs": pictures(3).tolist()})
    ask("POST", "/v1/opinions", app=app, json={"inputs": []})
    ask("GET", "/some/path/of/an/attacker", app=app)
    text = ask("GET", "/metrics", app=app).text
    assert 'nescio_requests_total{path="/v1/opinions",status="200"} 1.0' in text
    assert 'nescio_requests_total{path="/v1/opinions",status="422"} 1.0' in text
    assert 'nescio_requests_total{path="other",status="404"} 1.0' in text
    assert 'nescio_batch_size_sum{model="edl"} 3.0' in text
    assert "attacker" not in text
    counted = [line for line in text.splitlines() if line.startswith('nescio_opinions_total{accepted="')]
    assert sum(float(line.split()[-1]) for line in counted) == 6


def test_what_a_dead_process_had_waiting_is_forgotten(tmp_path):
    script = """
import os, sys
from nescio.serve._metrics import Metrics, remove_dead_processes
if os.fork() == 0:
    Metrics().set_waiting(5)
    os._exit(0)
os.wait()
metrics = Metrics()
metrics.set_waiting(2)
print(metrics.text().decode().split("nescio_waiting ")[-1].split()[0])
remove_dead_processes()
print(metrics.text().decode().split("nescio_waiting ")[-1].split()[0])
"""
    environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert ended.stdout.split() == ["7.0", "2.0"], ended.stderr


def test_docs_need_no_other_server(ask):
    page = ask("GET", "/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "POST /v1/opinions" in page.text
    assert "<script" not in page.text
    assert "http://" not in page.text
    assert "https://" not in page.text
    assert ask("GET", "/docs.css").status_code == 200


def test_mounted_elsewhere_it_answers_too(ask):
    from starlette.applications import Starlette
    from starlette.routing import Mount

    outer = Starlette(routes=[Mount("/models", create_app(pair()))])
    response = ask("POST", "/models/v1/opinions", app=outer, json={"inputs": pictures(1).tolist()})
    assert response.status_code == 200
    assert len(response.json()["results"]) == 2


def test_pictures_that_arrive_together_share_a_pass():
    app = create_app(pair())

    async def scenario():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            bodies = [{"inputs": pictures(1, seed).tolist(), "models": ["edl"]} for seed in range(20)]
            answers = await asyncio.gather(*(client.post("/v1/opinions", json=body) for body in bodies))
            return [answer.json() for answer in answers], (await client.get("/metrics")).text

    answers, text = asyncio.run(scenario())
    passes = float(text.split('nescio_batch_size_count{model="edl"} ')[1].split()[0])
    assert passes < 20
    alone = ServedModel("edl", pair()["edl"]).opinions(
        torch.cat([pictures(1, seed) for seed in range(20)])[:, None]
    )
    for answer, expected in zip(answers, alone, strict=True):
        assert answer["results"][0]["opinions"][0]["probabilities"] == pytest.approx(
            expected["probabilities"], rel=1e-4
        )


def test_a_gone_client_leaves_nothing_behind(caplog):
    app = create_app(pair())

    async def receive():
        return {"type": "http.disconnect"}

    async def send(_):
        raise AssertionError("there is nobody to answer")

    scope = {"type": "http", "method": "POST", "path": "/v1/opinions", "headers": []}
    asyncio.run(app(scope, receive, send))
    assert caplog.text == ""


def test_of_a_gone_client_the_rest_is_not_computed(monkeypatch):
    models = pair()
    app = create_app(models, Limits(batch_size=2))
    gone, batches = threading.Event(), []
    body = json.dumps({"inputs": pictures(10).tolist(), "models": ["edl"]}).encode()
    opinions = ServedModel.opinions

    def slow(model, inputs):
        batches.append(len(inputs))
        assert gone.wait(10)
        return opinions(model, inputs)

    monkeypatch.setattr(ServedModel, "opinions", slow)
    messages = [{"type": "http.request", "body": body}]

    async def receive():
        if messages:
            return messages.pop()
        while not batches:
            await asyncio.sleep(0.01)
        asyncio.get_running_loop().call_later(0.05, gone.set)
        return {"type": "http.disconnect"}

    async def send(_):
        raise AssertionError("there is nobody to answer")

    async def scenario():
        headers = [(b"content-type", b"application/json")]
        await app(
            {"type": "http", "method": "POST", "path": "/v1/opinions", "headers": headers}, receive, send
        )
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.post(
                "/v1/opinions", json={"inputs": pictures(1).tolist(), "models": ["softmax"]}
            )

    assert asyncio.run(scenario()).status_code == 200
    assert batches == [2, 1]


def test_picture_formats(ask):
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGBA", (40, 30), (10, 20, 30, 40)).save(file, "PNG")
    app = create_app({"colour": untrained(COLOUR, EDL())})
    response = ask(
        "POST", "/v1/opinions", app=app, files=[("files", ("a.png", file.getvalue(), "image/png"))]
    )
    assert response.status_code == 200
