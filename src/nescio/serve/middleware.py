"""Guard: what holds for every answer, whatever is behind it."""

from __future__ import annotations

import logging
import time

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nescio.serve.errors import UNFORESEEN, Refusal
from nescio.serve.metrics import Metrics

# Scripts, styles and pictures come from files of this server alone.
POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"cache-control", b"no-cache"),  # asked again each time: files of another version do not mix
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
PATHS = ("/", "/v1/opinions", "/v1/models", "/healthz", "/readyz", "/metrics", "/docs", "/openapi.json")
GONE = 499  # in the metrics alone: there is nobody left to tell

log = logging.getLogger(__name__)


class Guard:
    """Sets security headers, counts requests, and answers an unforeseen error with one line."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI wants it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0

        async def guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        try:
            await self._app(scope, receive, guarded)
        except ClientDisconnect:
            status = GONE
        except Exception:
            log.exception("unforeseen error in %s %s", scope["method"], scope["path"])
            if status:
                raise  # half an answer is out: the server cuts the connection
            await Refusal(500, UNFORESEEN).response()(scope, receive, guarded)
        finally:
            self._metrics.request(_path(scope), status, time.perf_counter() - start)


def _path(scope: Scope) -> str:
    """A path that there is; one name for all else, so that clients can't make ever new counters."""
    path: str = scope["path"]
    return path if path in PATHS else "other"
