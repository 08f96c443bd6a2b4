"""The shortcut answers as the usual way does, and leaves to it what is not usual."""

import asyncio
import json

import pytest
from tests.serve.helpers import ONE, pair, pictures, served

from nescio.serve import Limits, _service
from nescio.serve._access import Access
from nescio.serve._connection import Connection
from nescio.serve._shortcut import Shortcut
from nescio.serve.app import Application

PICTURE = pictures(1).numpy().tobytes()
JSON = "application/json"
RAW = "application/octet-stream"


def request(body, content_type, *more, path="/v1/opinions"):
    lines = [f"POST {path} HTTP/1.1", "host: here", f"content-type: {content_type}", *more]
    lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def asked(address, *parts, seconds=0.0):
    """Status, headers and body of the answer to these bytes, with so much time between them."""
    reader, writer = await asyncio.open_connection(*address)
    for part in parts:
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(seconds)
    try:
        return await read_answer(reader)
    finally:
        writer.close()


async def read_answer(reader):
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
    lines = head.decode().strip().split("\r\n")
    headers = [tuple(line.split(": ", 1)) for line in lines[1:]]
    body = await reader.readexactly(int(dict(headers)["content-length"]))
    return int(lines[0].split()[1]), headers, json.loads(body)


@pytest.fixture
def taken(monkeypatch):
    """For each request that came to the shortcut, whether it took it."""
    outcomes = []
    begin = Shortcut.begin

    def spied(self, admitted, body, reply):
        outcomes.append(begin(self, admitted, body, reply))
        return outcomes[-1]

    monkeypatch.setattr(Shortcut, "begin", spied)
    return outcomes


def run(scenario, **settings):
    async def all_of_it():
        async with served(**settings) as (_, address):
            return await scenario(address)

    return asyncio.run(all_of_it())


def without_date(headers):
    return sorted(header for header in headers if header[0] != "date")


@pytest.mark.parametrize(("body", "content_type"), [(PICTURE, RAW), (ONE, JSON)])
def test_both_ways_give_the_same_answer(taken, body, content_type):
    async def scenario(address):
        short = await asked(address, request(body, content_type))
        assert taken == [True]
        # In two parts it goes the usual way: the first one has all but the last byte.
        whole = request(body, content_type)
        usual = await asked(address, whole[:-1], whole[-1:], seconds=0.1)
        assert taken == [True]
        return short, usual

    short, usual = run(scenario)
    assert short[0] == usual[0] == 200
    assert without_date(short[1]) == without_date(usual[1])
    assert short[2] == usual[2]
    opinion = short[2]["results"][0]["opinions"][0]
    assert opinion["name"] == "1"
    assert sum(opinion["belief"]) + opinion["uncertainty"] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (PICTURE * 2, RAW, 200),
        (PICTURE[:-1], RAW, 422),
        (PICTURE, "text/plain", 415),
        (b"{", JSON, 400),
        (b'{"inputs": []}', JSON, 422),
        (b'{"inputs": [[1]]}', JSON, 422),
        (json.dumps({"inputs": pictures(1).tolist(), "models": ["edl"]}).encode(), JSON, 200),
        (json.dumps({"inputs": pictures(1).tolist(), "models": ["none"]}).encode(), JSON, 404),
        (json.dumps({"inputs": pictures(3).tolist()}).encode(), JSON, 200),
    ],
)
def test_what_is_not_plain_goes_the_usual_way(taken, body, content_type, status):
    answer = run(lambda address: asked(address, request(body, content_type)))
    assert answer[0] == status
    assert taken == [False]


@pytest.mark.parametrize(
    "asking",
    [
        request(PICTURE, RAW, path="/v1/opinions?models=edl"),
        request(PICTURE, RAW, "expect: 100-continue"),
        request(PICTURE, RAW).replace(b"HTTP/1.1", b"HTTP/1.0"),
        request(PICTURE * 65, RAW),  # more than is small
    ],
    ids=["query", "expect", "old", "large"],
)
def test_a_head_that_is_not_plain_does_not_come_to_the_shortcut(taken, asking):
    async def scenario(address):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(asking)
        answer = b""
        while b'"results"' not in answer:
            piece = await asyncio.wait_for(reader.read(2**16), 20)
            assert piece
            answer += piece
        writer.close()
        return answer

    assert b"HTTP/1.1 200 " in run(scenario)
    assert taken == []


def test_requests_that_are_sent_ahead_are_answered_in_their_order(taken):
    one, other = pictures(1, seed=1).numpy().tobytes(), pictures(1, seed=2).numpy().tobytes()

    async def scenario(address):
        alone = [await asked(address, request(body, RAW)) for body in (one, other)]
        reader, writer = await asyncio.open_connection(*address)
        writer.write(request(one, RAW) + request(other, RAW) + request(one, RAW))
        together = [await read_answer(reader) for _ in range(3)]
        writer.close()
        return alone, together

    (first, second), together = run(scenario)
    assert first[2] != second[2]
    probabilities = [answer[2]["results"][0]["opinions"][0]["probabilities"] for answer in together]
    expected = [answer[2]["results"][0]["opinions"][0]["probabilities"] for answer in (first, second, first)]
    for said, known in zip(probabilities, expected, strict=True):
        assert said == pytest.approx(known, abs=1e-5)
    assert taken[:3] == [True, True, True]


def test_a_connection_ends_where_the_client_says_so(taken):
    async def scenario(address):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(request(PICTURE, RAW, "connection: close"))
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        return answer

    answer = run(scenario)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.count(b"connection: close") == 1
    assert taken == [True]


def test_who_may_not_ask_is_refused_as_ever(taken):
    async def scenario(address):
        without = await asked(address, request(PICTURE, RAW))
        wrong = await asked(address, request(PICTURE, RAW, "authorization: Bearer other"))
        right = await asked(address, request(PICTURE, RAW, "authorization: Bearer secret"))
        return without[0], wrong[0], right[0]

    assert run(scenario, access=Access("secret")) == (401, 401, 200)
    assert taken == [True]


def test_an_error_of_a_model_is_told_in_the_same_words(taken, monkeypatch):
    reason = "the model edl can't answer the input: has values that are too large for the network"

    def answers(model, inputs):
        return [{"error": "has values that are too large for the network"}] * len(inputs)

    monkeypatch.setattr(_service, "answers_of", answers)

    async def scenario(address):
        short = await asked(address, request(PICTURE, RAW))
        usual = await asked(address, request(PICTURE, RAW, path="/v1/opinions?dtype=uint8"))
        return short, usual

    # The counter of accepted answers looks at those without an error alone.
    short, usual = run(scenario)
    assert short[0] == usual[0] == 422
    assert short[2] == usual[2] == {"error": reason}
    assert without_date(short[1]) == without_date(usual[1])
    assert taken == [True]


def test_an_unforeseen_error_is_one_line_and_logged(taken, monkeypatch, caplog):
    monkeypatch.setattr(_service, "answers_of", lambda *_: 1 / 0)
    status, _, body = run(lambda address: asked(address, request(PICTURE, RAW)))
    assert status == 500
    assert body == {"error": "something went wrong in the service; its log says what"}
    assert "ZeroDivisionError" in caplog.text
    assert taken == [True]


def test_a_client_that_goes_before_its_answer_costs_nothing(taken, caplog):
    async def scenario(address):
        _, writer = await asyncio.open_connection(*address)
        writer.write(request(PICTURE, RAW))
        await writer.drain()
        writer.transport.abort()
        return await asked(address, request(PICTURE, RAW))

    assert run(scenario)[0] == 200
    assert caplog.text == ""


def test_too_long_a_wait_is_told(taken):
    status, _, body = run(
        lambda address: asked(address, request(PICTURE, RAW)), limits=Limits(answer_timeout=1e-9)
    )
    assert status == 503
    assert body == {"error": "the answer took too long; try again"}
    assert taken == [True]


def test_requests_are_counted_by_path_and_status(taken):
    async def scenario(address):
        for _ in range(3):
            await asked(address, request(PICTURE, RAW))
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"GET /metrics HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n")
        text = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        return text.decode()

    text = run(scenario)
    assert 'nescio_requests_total{path="/v1/opinions",status="200"} 3.0' in text
    assert taken == [True] * 3


def test_one_connection_asks_again_and_again(taken):
    async def scenario(address):
        reader, writer = await asyncio.open_connection(*address)
        answers = []
        for _ in range(3):
            writer.write(request(PICTURE, RAW))
            answers.append(await read_answer(reader))
        writer.close()
        return answers

    answers = run(scenario)
    assert [answer[0] for answer in answers] == [200] * 3
    assert answers[0][2] == answers[1][2] == answers[2][2]
    assert taken == [True] * 3


@pytest.fixture
def parsed(monkeypatch):
    """What came to the parser."""
    pieces = []
    parse = Connection._parse

    def spied(self, data):
        pieces.append(data)
        parse(self, data)

    monkeypatch.setattr(Connection, "_parse", spied)
    return pieces


def test_a_head_that_is_known_is_not_parsed_again(taken, parsed):
    bodies = [pictures(1, seed=seed).numpy().tobytes() for seed in (1, 2, 1)]

    async def scenario(address):
        alone = [await asked(address, request(body, RAW)) for body in bodies]
        parsed.clear()
        reader, writer = await asyncio.open_connection(*address)
        together = []
        for body in bodies:
            writer.write(request(body, RAW))
            together.append(await read_answer(reader))
        writer.close()
        return alone, together

    alone, together = run(scenario)
    assert [answer[2] for answer in together] == [answer[2] for answer in alone]
    assert without_date(together[1][1]) == without_date(alone[1][1])
    assert parsed == [request(bodies[0], RAW)]
    assert taken == [True] * 6


@pytest.mark.parametrize(
    ("before", "behind"),
    [(b"\r\n\r\n", b""), (b"", b"\r\n")],
    ids=["before", "behind"],
)
def test_a_head_with_something_around_it_is_not_kept(taken, parsed, before, behind):
    async def scenario(address):
        reader, writer = await asyncio.open_connection(*address)
        answers = []
        for _ in range(2):
            writer.write(before + request(PICTURE, RAW) + behind)
            answers.append(await read_answer(reader))
        writer.close()
        return answers

    first, second = run(scenario)
    assert first[0] == second[0] == 200
    assert first[2] == second[2]
    assert len(parsed) == 2


def test_a_known_head_with_a_body_that_is_not_plain_goes_the_usual_way(taken, parsed):
    broken = ONE[:-1] + b"!"

    async def scenario(address):
        reader, writer = await asyncio.open_connection(*address)
        answers = []
        for body in (ONE, broken, ONE, ONE):
            writer.write(request(body, JSON))
            answers.append(await read_answer(reader))
        writer.close()
        return answers

    answers = run(scenario)
    assert [answer[0] for answer in answers] == [200, 400, 200, 200]
    assert answers[0][2] == answers[2][2] == answers[3][2]
    assert parsed == [request(ONE, JSON), request(broken, JSON), request(ONE, JSON)]
    assert taken == [True, False, False, True, True]


def test_a_long_head_is_parsed_each_time(taken, parsed):
    async def scenario(address):
        reader, writer = await asyncio.open_connection(*address)
        for _ in range(2):
            writer.write(request(PICTURE, RAW, f"cookie: {'x' * 5000}"))
            assert (await read_answer(reader))[0] == 200
        writer.close()

    run(scenario)
    assert len(parsed) == 2


@pytest.mark.parametrize("stray", [b"X", b"POST /v1/opin"])
def test_a_known_head_behind_the_beginning_of_another_is_not_taken_for_a_request(taken, stray):
    async def scenario(address):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(request(PICTURE, RAW))
        first = await read_answer(reader)
        writer.write(stray)
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.write(request(PICTURE, RAW))
        second = await read_answer(reader)
        writer.close()
        return first[0], second[0]

    first, second = run(scenario)
    assert first == 200
    assert second in (400, 404)
    assert taken == [True]


@pytest.mark.parametrize(
    ("limits", "status"),
    [(Limits(max_values=300), 413), (Limits(max_body=200), 413)],
    ids=["values", "body"],
)
def test_limits_hold(taken, limits, status):
    answer = run(lambda address: asked(address, request(PICTURE, RAW)), limits=limits)
    assert answer[0] == status
    assert True not in taken


def test_requests_are_logged_under_the_path_that_was_asked(taken, caplog):
    async def scenario():
        application = Application(pair(), Limits(), Access(root_path="/models"), access_log=True)
        async with served(router=application.router) as (_, address):
            return await asked(address, request(PICTURE, RAW))

    with caplog.at_level("INFO", logger="nescio.serve.access"):
        assert asyncio.run(scenario())[0] == 200
    (line,) = caplog.messages
    assert "POST /v1/opinions 200" in line
    assert taken == [True]


def test_a_request_under_way_at_the_end_is_answered(taken):
    async def scenario():
        async with served() as (server, address):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(request(PICTURE, RAW))
            while not taken:
                await asyncio.sleep(0.001)
            server.should_exit = True
            answer = await read_answer(reader)
            writer.close()
            return answer

    assert asyncio.run(scenario())[0] == 200
