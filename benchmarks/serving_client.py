"""A cheap HTTP client for `benchmarks.serving`: connections that stay open, bytes that are ready, no parsing.

python -m benchmarks.serving_client PORT CONNECTIONS REQUESTS CONTENT_TYPE < BODY

Prints seconds, errors and the latency of each request in seconds, as JSON.
"""

import asyncio
import json
import sys
import time

HEADER_END = b"\r\n\r\n"
LENGTH = b"content-length: "


class Client(asyncio.Protocol):
    """One connection that asks again as soon as it is answered."""

    def __init__(self, load: "Load") -> None:
        self._load = load
        self._left = 0  # bytes of the answer that have not arrived
        self._buffer = b""
        self._ok = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the first time."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        """Count bytes until the answer is whole."""
        if self._left:
            self._left -= len(data)
        else:
            self._buffer += data
            end = self._buffer.find(HEADER_END)
            if end < 0:
                return
            start = self._buffer.index(LENGTH) + len(LENGTH)
            length = int(self._buffer[start : self._buffer.index(b"\r", start)])
            self._ok = self._buffer.startswith(b"HTTP/1.1 200")
            self._left = length - (len(self._buffer) - end - len(HEADER_END))
        if not self._left:
            self._load.answered(time.perf_counter() - self._asked, self._ok)
            self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        """An error, unless the load is done."""
        self._load.lost()

    def _ask(self) -> None:
        self._buffer = b""
        if self._load.take():
            self._asked = time.perf_counter()
            self._transport.write(self._load.request)
        else:
            self._transport.close()


class Load:
    """So many requests over all connections together."""

    def __init__(self, request: bytes, requests: int) -> None:
        self.request = request
        self._left = requests
        self._open = requests
        self.latencies: list[float] = []
        self.errors = 0
        self.done = asyncio.get_running_loop().create_future()

    def take(self) -> bool:
        """Whether there is a request left to make."""
        self._left -= 1
        return self._left >= 0

    def answered(self, seconds: float, ok: bool) -> None:
        """One answer is whole."""
        self.latencies.append(seconds)
        self.errors += not ok
        self._finish()

    def lost(self) -> None:
        """A connection is gone; before the end, its request is an error."""
        if self._left >= 0 and not self.done.done():
            self.errors += 1
            self._finish()

    def _finish(self) -> None:
        self._open -= 1
        if self._open <= 0 and not self.done.done():
            self.done.set_result(None)


async def run(port: int, connections: int, requests: int, request: bytes) -> tuple[float, Load]:
    """Make the requests and measure."""
    loop = asyncio.get_running_loop()
    load = Load(request, requests)
    start = time.perf_counter()
    for _ in range(connections):
        await loop.create_connection(lambda: Client(load), "127.0.0.1", port)
    await load.done
    return time.perf_counter() - start, load


async def main() -> None:
    """Measure, print."""
    port, connections, requests = map(int, sys.argv[1:4])
    body = sys.stdin.buffer.read()
    head = f"POST /v1/opinions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {sys.argv[4]}\r\n"
    request = head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body
    seconds, load = await run(port, connections, requests, request)
    print(json.dumps({"seconds": seconds, "errors": load.errors, "latencies": load.latencies}))


if __name__ == "__main__":
    asyncio.run(main())
