"""Connection: HTTP as uvicorn speaks it, for clients that never finish a sentence."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

IDLE_SECONDS = 20.0


class Connection(HttpToolsProtocol):
    """Closed when no request has begun for a while, even if bytes trickle in.

    A request begins once its headers are whole. From then on the application has limits of its own.
    """

    _timer: asyncio.TimerHandle
    _last_cycle: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer = self.loop.call_later(IDLE_SECONDS, self._close_if_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def _close_if_idle(self) -> None:
        is_idle = self.cycle is None or self.cycle.response_complete
        if is_idle and self.cycle is self._last_cycle:
            self.transport.close()
            return
        self._last_cycle = self.cycle
        self._timer = self.loop.call_later(IDLE_SECONDS, self._close_if_idle)
