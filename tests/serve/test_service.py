"""Opinions: what they say, and the bounds on what a request may take."""

import asyncio
import json
import threading
import weakref

import httpx
import pytest
import torch
from tests.serve.helpers import COLOUR, PICTURE, ROWS, encoded, pair, pictures, reason, untrained

from nescio.data import _values
from nescio.inference.records import FIELDS, answers_of, predict_records
from nescio.methods import EDL, Softmax
from nescio.serve import _service
from nescio.serve.app import create_app
from nescio.serve.limits import Limits


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
    assert (
        reason(response)
        == "the model colour can't answer the input: must be 3 x 16 x 20 numbers, got 16 x 16"
    )
    response = ask("POST", "/v1/opinions", app=app, json={"inputs": pictures(2).tolist()})
    assert response.status_code == 200
    grey, colour = response.json()["results"]
    assert [opinion["error"] for opinion in grey["opinions"]] == [None, None]
    expected = ["must be 3 x 16 x 20 numbers, got 16 x 16"] * 2
    assert [opinion["error"] for opinion in colour["opinions"]] == expected


def test_several_inputs_of_which_none_can_be_answered_have_their_records(ask, tmp_path):
    broken = [("broken.png", b"no picture"), ("cut.png", encoded(pictures(1)[0])[:90])]
    files = []
    for name, content in broken:
        (tmp_path / name).write_bytes(content)
        files.append(("files", (name, content, "image/png")))
    model = untrained(PICTURE, EDL())
    response = ask("POST", "/v1/opinions", app=create_app({"grey": model}), files=files)
    assert response.status_code == 200
    (result,) = response.json()["results"]
    expected = model.records([tmp_path / name for name, _ in broken])
    for opinion, record in zip(result["opinions"], expected, strict=True):
        assert opinion["error"] is not None
        assert opinion | {"name": record["name"]} == record
    rows = create_app({"table": untrained(ROWS, EDL())})
    (result,) = ask("POST", "/v1/opinions", app=rows, json={"inputs": [[1.0, 2.0], [3.0, 4.0]]}).json()[
        "results"
    ]
    assert [opinion["error"] for opinion in result["opinions"]] == ["must be 4 numbers, got 2"] * 2


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
    assert "the model takes rows of 4 numbers, not pictures" in reason(response)


def test_values_that_a_network_can_not_take(ask):
    for method in (EDL(), Softmax()):
        model = untrained(ROWS, method)
        with torch.no_grad():
            for weights in model.module.parameters():
                weights.mul_(1e3)
        app = create_app({"table": model})
        response = ask("POST", "/v1/opinions", app=app, json={"inputs": [[3.4e38, -3.4e38, 3.4e38, 3.4e38]]})
        assert response.status_code == 422
        assert reason(response).endswith("the input: has values that are too large for the network")


def test_what_inputs_would_become_has_a_limit(ask, monkeypatch):
    # For each of the two models, an input is 256 pixels, and each of the three classes weighs 16.
    app = create_app(pair(), Limits(max_values=3 * 2 * (256 + 3 * 16)))
    file = ("files", ("a.png", encoded(pictures(1)[0][:1, :1]), "image/png"))
    assert ask("POST", "/v1/opinions", app=app, files=[file] * 3).status_code == 200
    assert ask("POST", "/v1/opinions", app=app, json={"inputs": pictures(3).tolist()}).status_code == 200
    assert ask("POST", "/v1/opinions", app=app, files=[file] * 6, data={"models": "edl"}).status_code == 200
    monkeypatch.setattr(_values, "read_picture", lambda *_: pytest.fail("a picture was decoded"))
    for content in ({"files": [file] * 4}, {"json": {"inputs": pictures(4).tolist()}}):
        response = ask("POST", "/v1/opinions", app=app, **content)
        assert response.status_code == 413
        assert reason(response) == "too many inputs for models of this size; at most 3 at once"


def test_who_waits_for_the_reader_has_a_bound_and_a_deadline(monkeypatch):
    app, started, free = (
        create_app(pair(), Limits(max_decoding=3, answer_timeout=2)),
        threading.Event(),
        threading.Event(),
    )

    def slow(*words):
        started.set()
        assert free.wait(10)
        return read_picture(*words)

    read_picture = _values.read_picture
    monkeypatch.setattr(_values, "read_picture", slow)
    file = [("files", ("a.png", encoded(pictures(1)[0]), "image/png"))]

    async def scenario():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            waiting = [asyncio.create_task(client.post("/v1/opinions", files=file)) for _ in range(3)]
            while not started.is_set() or (await client.get("/readyz")).status_code == 200:
                await asyncio.sleep(0.01)
            refused = await client.post("/v1/opinions", files=file), await client.get("/readyz")
            small = await client.post("/v1/opinions", json={"inputs": pictures(1).tolist()})
            await asyncio.sleep(2.1)
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

    read_picture = _values.read_picture
    monkeypatch.setattr(_values, "read_picture", slow)
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
    inputs = torch.cat([pictures(1, seed) for seed in range(20)])[:, None]
    alone = answers_of(pair()["edl"], inputs)
    for answer, expected in zip(answers, alone, strict=True):
        assert answer["results"][0]["opinions"][0]["probabilities"] == pytest.approx(
            expected["probabilities"], rel=1e-4
        )


def test_of_a_gone_client_the_rest_is_not_computed(monkeypatch):
    models = pair()
    app = create_app(models, Limits(batch_size=2))
    gone, batches = threading.Event(), []
    body = json.dumps({"inputs": pictures(10).tolist(), "models": ["edl"]}).encode()
    real = _service.answers_of

    def slow(model, inputs):
        batches.append(len(inputs))
        assert gone.wait(10)
        return real(model, inputs)

    monkeypatch.setattr(_service, "answers_of", slow)
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


def test_records_are_those_of_predict_to_the_last_field_with_a_broken_picture_among_them(
    ask, tmp_path, monkeypatch
):
    contents = {
        "one.png": encoded(pictures(1)[0]),
        "words.png": b"these are words",
        "cut.jpg": encoded(pictures(1)[0], "JPEG")[:-60],
        "two.bmp": encoded(pictures(1, seed=1)[0], "BMP"),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    models = pair()
    files = [("files", (name, content, "image/png")) for name, content in contents.items()]
    response = ask("POST", "/v1/opinions", app=create_app(models), files=files)
    assert response.status_code == 200
    for result in response.json()["results"]:
        expected = predict_records(models[result["model"]], list(contents))
        assert result["opinions"] == expected
        assert [list(record) for record in result["opinions"]] == [list(FIELDS)] * 4
        assert [record["error"] is None for record in expected] == [True, False, False, True]
        assert result["opinions"][1]["error"] == "words.png is not a PNG, JPEG, BMP or WebP picture"


def test_arrays_give_the_records_that_tensors_give_in_python(ask):
    models = pair()
    inputs = pictures(3).float() / 2
    inputs[1, 3, 4] = 255.5
    response = ask("POST", "/v1/opinions", app=create_app(models), json={"inputs": inputs.tolist()})
    assert response.status_code == 200
    for result in response.json()["results"]:
        assert result["opinions"] == predict_records(models[result["model"]], inputs)
        assert [record["name"] for record in result["opinions"]] == ["1", "2", "3"]
        assert result["opinions"][1]["error"] == "has pixels that are not 0 to 255"


def test_a_row_that_the_network_can_not_take_costs_the_others_nothing(ask):
    model = untrained(ROWS, Softmax())
    with torch.no_grad():
        for weights in model.module.parameters():
            weights.mul_(1e3)
    app = create_app({"table": model})
    rows = [[0.5, 1, 2, 3], [3.4e38, -3.4e38, 3.4e38, 3.4e38]]
    response = ask("POST", "/v1/opinions", app=app, json={"inputs": rows})
    first, second = response.json()["results"][0]["opinions"]
    assert response.status_code == 200
    assert first["error"] is None
    assert second == dict.fromkeys(FIELDS) | {
        "name": "2",
        "error": "has values that are too large for the network",
    }
    metrics = ask("GET", "/metrics", app=app).text
    counted = [line for line in metrics.splitlines() if line.startswith('nescio_opinions_total{accepted="')]
    assert sum(float(line.split()[-1]) for line in counted) == 1


class _Counted(dict):
    """A record that can be seen to live."""


def test_of_a_large_request_no_more_records_are_held_than_a_batch_has(ask, monkeypatch):
    alive = weakref.WeakSet()
    most = []
    real = _service.answers_of

    class Key:
        """Stands for a record, which itself can't be in a set."""

    def counted(model, inputs):
        most.append(len(alive))
        records = [_Counted(record) for record in real(model, inputs)]
        for record in records:
            record.key = Key()
            alive.add(record.key)
        return records

    monkeypatch.setattr(_service, "answers_of", counted)
    app = create_app(pair(), Limits(batch_size=8))
    response = ask("POST", "/v1/opinions", app=app, json={"inputs": pictures(80).tolist()})
    assert [len(result["opinions"]) for result in response.json()["results"]] == [80, 80]
    assert len(most) == 20
    assert max(most) <= 16  # those of both models


def test_memory_is_given_back_after_large_bodies_and_answers(ask, monkeypatch):
    released = []
    monkeypatch.setattr(_service, "_RELEASE", 100_000)
    monkeypatch.setattr(_service, "release_memory", lambda: released.append(threading.current_thread()))
    app = create_app(pair())
    raw = {"content-type": "application/octet-stream"}
    ask("POST", "/v1/opinions", app=app, content=pictures(200).numpy().tobytes(), headers=raw)
    (thread,) = released  # 51,200 bytes of a body, and more than that of an answer
    assert thread is not threading.main_thread()
    ask("POST", "/v1/opinions", app=app, content=pictures(1).numpy().tobytes(), headers=raw)
    assert len(released) == 1
