"""Middleware: what holds for every answer, whatever route gives it."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nescio.serve._access import Access
from nescio.serve._errors import refusal_for
from nescio.serve._logs import log_access
from nescio.serve._metrics import Metrics

# Scripts, styles and pictures come from files of this server alone.
_POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"cache-control", b"no-cache"),  # asked again each time: files of another version do not mix
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
ANYONE = Access()
_CLIENT_GONE = 499  # a status for the metrics alone: there is nobody left to answer


def _with_a_slash(path: str) -> Response:
    """To the same path with a slash at its end: what the page names lies below it.

    Without a host: clients would be sent to whatever their Host header says.
    """
    last = path.rpartition("/")[2]
    return Response(status_code=307, headers={"Location": f"./{last}/"})


class ServiceMiddleware:
    """Sets security headers, counts and logs requests, and answers every error with one line of JSON.

    known_paths: those that are counted by name. All others are counted as one, so that clients can't make
    ever new counters. access: what a request must bring. is_logged: whether each request is logged.
    direct: applications by method and path that are called without a look through the routes, which takes as
    long as all else that is done for a request here.
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        known_paths: Collection[str],
        access: Access = ANYONE,
        is_logged: bool = False,
        direct: Mapping[tuple[str, str], ASGIApp] | None = None,
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._known_paths = frozenset(known_paths)
        self._access = access
        self._is_logged = is_logged
        self._direct = direct or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        status = 0
        path = "other"
        # With an application in its scope, a route that is asked by another method raises HTTPException.
        scope.setdefault("app", self._app)

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        try:
            path = self._access.enter(scope)
            app = self._direct.get((scope["method"], path), self._app)
            if path == "/" and scope["path"] == scope.get("root_path") and scope["method"] in ("GET", "HEAD"):
                app = _with_a_slash(scope["path"])
            await app(scope, receive, send_with_headers)
        except HTTPException as error:  # the router's: an unknown path, another method than the path has
            response = JSONResponse({"error": error.detail.lower()}, error.status_code, error.headers)
            await response(scope, receive, send_with_headers)
        except ClientDisconnect:
            status = _CLIENT_GONE
        except Exception as error:
            refusal = refusal_for(error, scope["method"], scope["path"])
            if status:
                raise  # half an answer is out: the server cuts the connection
            await refusal.response()(scope, receive, send_with_headers)
        finally:
            seconds = time.perf_counter() - start
            if path not in self._known_paths:
                path = "other"
            self._metrics.count_request(path, status, seconds)
            if self._is_logged:
                log_access(scope, status, seconds)
