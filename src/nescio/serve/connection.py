"""Connection: HTTP as uvicorn speaks it, for clients that never finish a sentence."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

PATIENCE = 20.0  # seconds


class Connection(HttpToolsProtocol):
    """Closed when no request has begun for a while, even if bytes trickle in.

    A request begins once its headers are whole. From then on the application has limits of its own.
    """

    _timer: asyncio.TimerHandle
    _last: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(PATIENCE, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._timer.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        idle = self.cycle is None or self.cycle.response_complete
        if idle and self.cycle is self._last:
            self.transport.close()
            return
        self._last = self.cycle
        self._timer = self.loop.call_later(PATIENCE, self._look)
