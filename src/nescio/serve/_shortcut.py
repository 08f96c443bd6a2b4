"""Shortcut: one small input to its answer without a task of its own and without ASGI.

A task and the way through ASGI take longer than all else that is done for an input beside the network. What
can't be put into the queue as it is goes the way that all others go, and is refused there where it must be.
A client asks again and again with the same head, to the byte: what was found in it the first time is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from starlette.types import Scope

from nescio.serve._access import Access
from nescio.serve._errors import RequestError, refusal_for
from nescio.serve._logs import log_access
from nescio.serve._metrics import Metrics
from nescio.serve._middleware import HEADERS
from nescio.serve._service import Service

PATH = "/v1/opinions"
MAX_BODY = 2**14  # bytes

Reply = Callable[[int, bytes, bytes], None]  # with a status, the lines of the headers, and the body


def lines_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Headers as they are sent."""
    return b"".join(b"%b: %b\r\n" % header for header in headers)


_HEAD = lines_of([*HEADERS, (b"content-type", b"application/json")]) + b"content-length: %d\r\n"


@dataclass(frozen=True)
class Admitted:
    """What the head of a request says, once it was let in."""

    scope: Scope
    content_type: bytes


class Shortcut:
    """Does for a request what the middleware does for all others."""

    def __init__(self, service: Service, access: Access, metrics: Metrics, is_logged: bool) -> None:
        self._service = service
        self._access = access
        self._metrics = metrics
        self._is_logged = is_logged

    def admit(self, scope: Scope) -> Admitted | None:
        """A request by its head; None where it is not let in, which the usual way says."""
        try:
            self._access.enter(scope)
        except RequestError:
            return None
        return Admitted(scope, dict(scope["headers"]).get(b"content-type", b""))

    def begin(self, admitted: Admitted, body: bytes, reply: Reply) -> bool:
        """Whether the request will be answered, by a call of `reply`; else it is to go the usual way."""
        end = partial(self._end, admitted.scope, time.perf_counter(), reply)
        try:
            return self._service.begin_one(admitted.content_type, body, end)
        except Exception:  # noqa: BLE001 - the usual way meets it again, and tells of it
            return False

    def _end(self, scope: Scope, start: float, reply: Reply, outcome: bytes | Exception) -> None:
        if isinstance(outcome, bytes):
            status = 200
            reply(status, _HEAD % len(outcome), outcome)
        else:
            refusal = refusal_for(outcome, scope["method"], scope["path"])
            status = refusal.status
            response = refusal.response()
            reply(status, lines_of([*response.raw_headers, *HEADERS]), bytes(response.body))
        seconds = time.perf_counter() - start
        self._metrics.count_request(PATH, status, seconds)
        if self._is_logged:
            log_access(scope, status, seconds)
