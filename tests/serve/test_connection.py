"""Connections that never ask."""

import asyncio
import socket

import pytest
import uvicorn

from nescio.serve import _connection
from nescio.serve._connection import Connection


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
        ends = [await asyncio.wait_for(one.read(), 20) for one in (silent, trickled, asked)]
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
