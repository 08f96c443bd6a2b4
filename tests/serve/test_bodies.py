"""Bodies: what is too large, too slow or too much at once."""

import asyncio

import httpx
from tests.serve.helpers import pair, pictures, reason

from nescio.serve.app import create_app
from nescio.serve.limits import Limits

JSON = {"content-type": "application/json"}


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
        has_arrived, goes_on = asyncio.Event(), asyncio.Event()

        async def slow():
            yield b'{"inputs": [' + b" " * 2500
            has_arrived.set()  # for the next piece is asked
            await goes_on.wait()
            yield b"]}"

        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            first = asyncio.create_task(client.post("/v1/opinions", content=slow(), headers=JSON))
            await has_arrived.wait()
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
