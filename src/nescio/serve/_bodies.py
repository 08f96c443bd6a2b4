"""Bodies of requests: read into memory, never more than the limits allow, never to a disk."""

from __future__ import annotations

import asyncio

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
        deadline = _Deadline(self._limits.read_timeout)
        try:
            await self._collect(receive, chunks)
        except BaseException as error:
            self._held -= sum(map(len, chunks))
            if deadline.is_over and isinstance(error, asyncio.CancelledError):
                reason = f"the body took longer than {self._limits.read_timeout:g} s to arrive"
                raise RequestError(408, reason, closes_connection=True) from None
            raise
        finally:
            deadline.cancel()
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


class _Deadline:
    """Cancels the task that made it, unless it is cancelled itself; Python 3.10 has no asyncio.timeout."""

    __slots__ = ("_task", "_timer", "is_over")

    def __init__(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task(loop)
        self._timer = loop.call_later(seconds, self._end)
        self.is_over = False

    def cancel(self) -> None:
        self._timer.cancel()

    def _end(self) -> None:
        self.is_over = True
        assert self._task is not None
        self._task.cancel()
