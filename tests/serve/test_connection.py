"""Connections: what clients may make the server hold, and how it ends."""

import asyncio
import logging
import socket

import pytest
import uvicorn
from tests.serve.helpers import exchange, refused, served

from nescio.serve import Limits, _connection, _process
from nescio.serve._connection import STATE, Connection, ConnectionSettings


def test_connections_that_never_ask_are_closed():
    """With a short patience, in this process: half a header, one that trickles, and one that asks."""

    async def scenario():
        served = uvicorn.Server(uvicorn.Config(answer, http=Connection, lifespan="off", log_level="warning"))
        listener = socket.create_server(("127.0.0.1", 0))
        serving = asyncio.create_task(served.serve([listener]))
        while not served.started:
            await asyncio.sleep(0.01)
        streams = [await asyncio.open_connection(*listener.getsockname()) for _ in range(3)]
        (silent, _), (trickled, trickle), (asked, asking) = streams
        trickle.write(b"GET / HTTP/1.1\r\nx: ")
        asking.write(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
        for _ in range(1000):
            if trickled.at_eof():
                break
            trickle.write(b"x")
            await asyncio.sleep(0.02)
        ends = []
        for one in (silent, trickled, asked):
            try:
                ends.append(await asyncio.wait_for(one.read(), 20))
            except ConnectionResetError:  # closed while a byte was still on its way to it
                ends.append(b"")
        for _, writer in streams:
            writer.close()
        served.should_exit = True
        await serving
        return ends

    async def answer(scope, receive, send):
        await asyncio.sleep(2)  # more than the patience: a request that has begun is not cut off
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_connection, "IDLE_SECONDS", 1)
        silent, trickled, asked = asyncio.run(scenario())
    assert (silent, trickled) == (b"", b"")
    assert asked.startswith(b"HTTP/1.1 200 ")
    assert asked.endswith(b"ok")


TOO_LARGE = "the headers are too large; at most 64 KiB and 256 lines"
CHUNKED = b"POST /v1/opinions HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n"


@pytest.mark.parametrize(
    "begin",
    [
        b"GET /",
        b"GET / HTTP/1.1\r\nx: ",
        CHUNKED + b"x: ",
    ],
    ids=["a path without end", "a header without end", "a trailer without end"],
)
def test_what_has_no_end_is_refused_at_64_kib(begin, caplog):
    caplog.set_level(logging.INFO, "nescio.serve.access")

    async def scenario():
        async with served(access_log=True) as (_, address):
            answer = await exchange(address, begin, bytes(b"x" * 70_000))
            metrics = await exchange(address, b"GET /metrics HTTP/1.1\r\nconnection: close\r\n\r\n")
            return answer, metrics

    answer, metrics = asyncio.run(scenario())
    status, _, line = refused(answer)
    assert (status, line) == (431, TOO_LARGE)
    assert b'nescio_requests_total{path="other",status="431"} 1.0' in metrics
    lines = [record.getMessage() for record in caplog.records]
    assert sum(line.startswith("127.0.0.1 - - 431 ") for line in lines) == 1


def test_many_short_headers_are_refused_and_long_ones_are_not():
    async def scenario():
        async with served() as (_, address):
            end = b"connection: close\r\n\r\n"
            many = await exchange(address, b"GET /healthz HTTP/1.1\r\n" + b"a:\r\n" * 300 + end)
            long = await exchange(address, b"GET /healthz HTTP/1.1\r\nx: " + b"x" * 60_000 + b"\r\n" + end)
            return many, long

    many, long = asyncio.run(scenario())
    assert refused(many)[::2] == (431, TOO_LARGE)
    assert long.startswith(b"HTTP/1.1 200 ")


def test_trailers_do_not_become_headers():
    scopes = []

    async def answer(scope, receive, send):
        while (await receive()).get("more_body"):
            pass
        scopes.append(dict(scope["headers"]))
        await send({"type": "http.response.start", "status": 204, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body"})

    async def scenario():
        async with served(router=with_settings(answer, Limits())) as (_, address):
            await exchange(address, CHUNKED + b"authorization: later\r\n\r\n")

    asyncio.run(scenario())
    assert scopes == [{b"host": b"here", b"transfer-encoding": b"chunked"}]


def with_settings(answer, limits):
    """An application that tells connections of limits, as ours does."""

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            scope["state"][STATE] = ConnectionSettings(limits, answer, lambda error, client: ([], b""))
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
        else:
            await answer(scope, receive, send)

    return app


def test_requests_that_are_sent_ahead_wait_outside():
    """All are answered, in order, however many there are; few of them are held at a time."""
    count = 3000
    held = []

    async def scenario():
        async with served() as (server, address):
            reader, writer = await asyncio.open_connection(*address)
            requests = b"GET /healthz HTTP/1.1\r\n\r\n" * (count - 1)
            writer.write(requests + b"GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n")
            answers = b""
            while piece := await asyncio.wait_for(reader.read(2**16), 20):
                answers += piece
                for connection in server.server_state.connections:
                    held.append(len(connection.pipeline))
            writer.close()
            return answers

    answers = asyncio.run(scenario())
    assert answers.count(b"HTTP/1.1 200 ") == count
    assert answers.count(b'{"status":"ok"}') == count
    assert 1 <= max(held) < 64


def test_an_answer_that_nobody_reads_is_given_up():
    sent = []

    async def answer(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": bytes(2**16), "more_body": True})
            sent.append(2**16)

    async def scenario():
        limits = Limits(write_timeout=0.3)
        async with served(router=with_settings(answer, limits)) as (server, address):
            client = socket.create_connection(address)
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            while not sent:
                await asyncio.sleep(0.01)
            (connection,) = server.server_state.connections
            largest = 0
            for _ in range(500):
                if not server.server_state.connections:
                    break
                largest = max(largest, connection.transport.get_write_buffer_size())
                await asyncio.sleep(0.02)
            given_up = not server.server_state.connections
            client.close()
            return largest, given_up

    largest, given_up = asyncio.run(scenario())
    assert given_up
    assert 0 < largest <= 3 * 2**16  # what is above this waits in the application


def test_a_short_answer_that_nobody_reads_is_given_up_too():
    """It fits what is buffered: no writing waits for it, and closing alone would wait for ever."""

    async def answer(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": bytes(2**23)})
        sent.append(True)

    sent = []

    async def scenario():
        async with served(router=with_settings(answer, Limits(write_timeout=60))) as (server, address):
            client = socket.create_connection(address)
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            while not sent:
                await asyncio.sleep(0.01)
            assert len(server.server_state.connections) == 1
            for _ in range(500):
                if not server.server_state.connections:
                    break
                await asyncio.sleep(0.02)
            given_up = not server.server_state.connections
            client.close()
            return given_up

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_connection, "IDLE_SECONDS", 0.2)
        assert asyncio.run(scenario())


def test_what_is_no_http_is_refused_in_the_words_of_the_service():
    async def scenario():
        async with served() as (_, address):
            return await exchange(address, b"nonsense\r\n\r\n")

    status, headers, line = refused(asyncio.run(scenario()))
    assert (status, line) == (400, "the request is not HTTP/1.1 that can be read")
    assert "default-src 'self'" in headers["content-security-policy"]


def test_one_connection_too_many_is_refused_in_the_words_of_the_service():
    async def scenario():
        async with served(Limits(max_connections=1)) as (_, address):
            _, first = await asyncio.open_connection(*address)
            second = await exchange(address, b"GET /healthz HTTP/1.1\r\n\r\n")
            first.close()
            third = b"HTTP/1.1 503 "
            while third.startswith(b"HTTP/1.1 503 "):  # until the server has seen that they are gone
                await asyncio.sleep(0.02)
                third = await exchange(address, b"GET /metrics HTTP/1.1\r\nconnection: close\r\n\r\n")
            return second, third

    second, third = asyncio.run(scenario())
    status, headers, line = refused(second)
    assert (status, headers["retry-after"]) == (503, "1")
    assert line == "too many connections; try again"
    assert b'nescio_requests_total{path="/healthz",status="503"} 1.0' in third


def test_many_more_connections_than_that_are_not_kept():
    async def scenario():
        async with served(Limits(max_connections=1)) as (_, address):
            others = [await asyncio.open_connection(*address) for _ in range(2)]
            told = await exchange(address)
            for _, writer in others:
                writer.close()
            return told

    assert refused(asyncio.run(scenario()))[0] == 503


def test_a_client_that_asks_at_the_end_is_answered():
    """On a connection that was kept, and on a new one, after the server was told to stop."""
    request = b"GET /healthz HTTP/1.1\r\nhost: here\r\n\r\n"

    async def scenario():
        async with served() as (server, address):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(request)
            first = await reader.readuntil(b'{"status":"ok"}')
            server.should_exit = True
            await asyncio.sleep(0.2)  # by now it has seen that
            writer.write(request)
            second = await asyncio.wait_for(reader.read(), 20)
            writer.close()
            third = await exchange(address, request)
            return first, second, third

    with pytest.MonkeyPatch.context() as patch:
        for module in (_connection, _process):
            patch.setattr(module, "LAST_CALL_SECONDS", 2.0)  # time enough on a busy machine
        first, second, third = asyncio.run(scenario())
    assert b"connection: close" not in first
    for answer in (second, third):
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in answer


def test_requests_that_were_sent_ahead_are_answered_at_the_end():
    count = 200

    async def scenario():
        async with served() as (server, address):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"GET /healthz HTTP/1.1\r\n\r\n" * count)
            await reader.readuntil(b'{"status":"ok"}')
            server.should_exit = True
            rest = await asyncio.wait_for(reader.read(), 20)
            writer.close()
            return rest

    assert asyncio.run(scenario()).count(b"HTTP/1.1 200 ") == count - 1
