"""What the service accepts at most, and the reading of bodies that never exceeds it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from nescio.errors import InputError
from nescio.serve.errors import Refusal

MEBIBYTE = 2**20
ANSWER_VALUES = 16  # a pixel is a byte; a number in an answer is an object, and text


@dataclass(frozen=True)
class Limits:
    """body: bytes of a request; bodies: of all requests under way.

    inputs: of a request; pixels: of all its pictures, as they come. values: numbers that its inputs become
    for each model, and ANSWER_VALUES for each class of an answer; of all requests under way, too.
    readers: requests that wait to be decoded; waiting: inputs in the queue; batch: inputs that share a
    forward pass. reading and answering: seconds until the service gives up.
    """

    body: int = 32 * MEBIBYTE
    bodies: int = 256 * MEBIBYTE
    inputs: int = 10_000
    pixels: int = 64_000_000
    values: int = 64_000_000
    readers: int = 64
    waiting: int = 20_000
    batch: int = 256
    reading: float = 20.0
    answering: float = 20.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise InputError(f"{field.name} must be positive, got {getattr(self, field.name)!r}")


class Bodies:
    """Reads bodies into memory, within the limits of one and of all together."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held = 0

    async def read(self, announced: int, receive: Receive) -> bytes:
        """The body; its bytes count until it is given back. announced: by Content-Length, 0 if not."""
        self._require_room(announced)
        chunks: list[bytes] = []
        try:
            await self._collect(receive, chunks)
        except BaseException:
            self._held -= sum(map(len, chunks))
            raise
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def give_back(self, body: bytes) -> None:
        """It is not needed any more."""
        self._held -= len(body)

    async def _collect(self, receive: Receive, chunks: list[bytes]) -> None:
        taken, more = 0, True
        with _deadline(self._limits.reading):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                chunk, more = message.get("body", b""), message.get("more_body", False)
                chunks.append(chunk)
                taken += len(chunk)
                self._held += len(chunk)
                self._require_room(taken)

    def _require_room(self, taken: int) -> None:
        if taken > self._limits.body:
            raise Refusal(
                413, f"the body is too large; at most {self._limits.body / MEBIBYTE:g} MiB", unread=True
            )
        if self._held > self._limits.bodies:
            raise Refusal(503, "too many large requests at once; try again", retry_after=1, unread=True)


@contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    """Refuses what takes longer. As asyncio.timeout, which Python 3.10 lacks."""
    task, late = asyncio.current_task(), False
    assert task is not None

    def expire() -> None:
        nonlocal late
        late = True
        task.cancel()

    timer = asyncio.get_running_loop().call_later(seconds, expire)
    try:
        yield
    except asyncio.CancelledError:
        if not late:
            raise
        raise Refusal(408, f"the body took longer than {seconds:g} s to arrive", unread=True) from None
    finally:
        timer.cancel()
