"""What the service accepts at most, and the reading of bodies that never exceeds it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields

import anyio
from starlette.requests import Request

from evidentia.errors import InputError
from evidentia.serve.refusals import Refusal

MEBIBYTE = 2**20


@dataclass(frozen=True)
class Limits:
    """body: bytes of a request; bodies: of all requests that are being read.

    inputs: of a request; pixels: of all its pictures, as they come; waiting: inputs in the queue;
    batch: inputs that share a forward pass. reading and answering: seconds until the service gives up.
    """

    body: int = 32 * MEBIBYTE
    bodies: int = 256 * MEBIBYTE
    inputs: int = 10_000
    pixels: int = 64_000_000
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

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """The body; its bytes count until the block is left."""
        self._require_announced(request)
        chunks: list[bytes] = []
        try:
            await self._collect(request, chunks)
            yield b"".join(chunks)
        finally:
            self._held -= sum(map(len, chunks))

    async def _collect(self, request: Request, chunks: list[bytes]) -> None:
        taken = 0
        try:
            with anyio.fail_after(self._limits.reading):
                async for chunk in request.stream():
                    chunks.append(chunk)
                    taken += len(chunk)
                    self._held += len(chunk)
                    self._require_room(taken)
        except TimeoutError:
            raise Refusal(408, f"the body took longer than {self._limits.reading:g} s to arrive") from None

    def _require_announced(self, request: Request) -> None:
        announced = request.headers.get("content-length", "0")
        if announced.isdecimal() and int(announced) > self._limits.body:
            raise self._too_large()

    def _require_room(self, taken: int) -> None:
        if taken > self._limits.body:
            raise self._too_large()
        if self._held > self._limits.bodies:
            raise Refusal(503, "too many large requests at once; try again", retry_after=1)

    def _too_large(self) -> Refusal:
        return Refusal(413, f"the body is too large; at most {self._limits.body / MEBIBYTE:g} MiB")
