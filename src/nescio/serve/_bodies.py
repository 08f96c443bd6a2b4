"""Bodies of requests: read into memory, never more than the limits allow, never to a disk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from nescio.serve._errors import RequestError
from nescio.serve.limits import MEBIBYTE, Limits


class BodyReader:
    """Reads bodies within the limits of one and of all together."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held = 0  # bytes of all bodies that have not been released

    async def read(self, content_length: int, receive: Receive) -> bytes:
        """The whole body; its bytes count until `release`.

        content_length: as the client announced it, 0 if it did not.
        """
        self._require_room(content_length)
        chunks: list[bytes] = []
        try:
            with _timeout(self._limits.read_timeout):
                await self._collect(receive, chunks)
        except BaseException:
            self._held -= sum(map(len, chunks))
            raise
        # The usual body arrives in one piece: it is not copied.
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def release(self, body: bytes) -> None:
        self._held -= len(body)

    async def _collect(self, receive: Receive, chunks: list[bytes]) -> None:
        size = 0
        is_complete = False
        while not is_complete:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk = message.get("body", b"")
            is_complete = not message.get("more_body", False)
            chunks.append(chunk)
            size += len(chunk)
            self._held += len(chunk)
            self._require_room(size)

    def _require_room(self, size: int) -> None:
        if size > self._limits.max_body:
            most = f"{self._limits.max_body / MEBIBYTE:g} MiB"
            raise RequestError(413, f"the body is too large; at most {most}", closes_connection=True)
        if self._held > self._limits.max_total_body:
            raise RequestError(
                503, "too many large requests at once; try again", retry_after=1, closes_connection=True
            )


@contextmanager
def _timeout(seconds: float) -> Iterator[None]:
    """Refuse what takes longer. As asyncio.timeout, which Python 3.10 lacks."""
    task = asyncio.current_task()
    assert task is not None
    is_late = False

    def expire() -> None:
        nonlocal is_late
        is_late = True
        task.cancel()

    timer = asyncio.get_running_loop().call_later(seconds, expire)
    try:
        yield
    except asyncio.CancelledError:
        if not is_late:
            raise
        reason = f"the body took longer than {seconds:g} s to arrive"
        raise RequestError(408, reason, closes_connection=True) from None
    finally:
        timer.cancel()
