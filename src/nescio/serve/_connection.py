"""Connection: HTTP as uvicorn speaks it, with limits on what a client may make the server hold.

uvicorn's own protocol bounds bodies alone. What it lacks is here, and nowhere else: limits on headers and
trailers, on requests that are sent before the last one is answered, on answers that nobody reads and on
connections on which nothing is asked; refusals as the rest of the service words them; and an end at which
nothing that has arrived is lost.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from nescio.serve._errors import RequestError, too_many_connections
from nescio.serve._shortcut import MAX_BODY, PATH, Admitted, Shortcut, lines_of
from nescio.serve.limits import Limits

IDLE_SECONDS = 20.0
LAST_CALL_SECONDS = (
    0.5  # at the end: for a next request on a connection that is kept, or that waits to be accepted
)
LINGER_SECONDS = 1.0  # from a refusal to the end of the connection
MAX_HEAD = 2**16  # bytes of the request line and the headers, and again of the trailers
MAX_HEADERS = 256
STATE = "nescio"  # the name of ConnectionSettings in the state that the lifespan gives
_SHORT_URL = PATH.encode()
_HEAD_END = b"\r\n\r\n"
_MAX_KEPT_HEAD = 4096  # bytes of a head that is remembered, for each connection
_PIECE = 1024  # bytes that are parsed at a time where a request may end in them

Headers = list[tuple[bytes, bytes]]
Address = tuple[str, int]


@dataclass(frozen=True, eq=False)
class ConnectionSettings:
    """What a connection needs to know of the application.

    refuse: answers a request that comes while there are too many connections. refusal: for an error that the
    server makes before there is a request, and the client's address, its headers and its body; it is counted
    and logged. shortcut: takes requests for opinions that have arrived at once; None where there is none.
    """

    limits: Limits
    refuse: ASGIApp
    refusal: Callable[[RequestError, Address | None], tuple[Headers, bytes]]
    shortcut: Shortcut | None = None


class State(ServerState):
    """What the connections of a server share. is_ending: the server was told to stop."""

    is_ending: bool = False


@dataclass(frozen=True)
class _ShortRequest:
    """A request that took the shortcut, for the next one that begins with the same bytes.

    head: all before the body. size: of head and body together.
    """

    head: bytes
    size: int
    admitted: Admitted
    keep_alive: bool


class Connection(HttpToolsProtocol):
    """One connection of a client."""

    _settings: ConnectionSettings | None
    _timer: asyncio.TimerHandle
    _write_timer: asyncio.TimerHandle | None = None
    _active: RequestResponseCycle | None = None  # the request that is being answered, or was last
    _last_cycle: RequestResponseCycle | None = None
    _is_ending = False
    _is_refused = False  # nothing more is parsed
    _unread = b""  # what came behind a request that waits for the answer to the one before it
    _body_left = 0  # bytes that are known to belong to the body
    _num_body_bytes = 0
    _num_other_bytes = 0  # since the parser last came to the end of something
    _has_advanced = False
    _is_in_head = True
    _has_too_many_headers = False
    _held_body: bytes | None = None  # of a request that may be one for the shortcut
    _is_between_requests = True  # the parser has seen nothing of a next one
    _arrived = b""  # what is being parsed, where it begins with a request
    _last_short: _ShortRequest | None = None

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._settings = app_state.get(STATE)
        self._served_app = self.app

    # From the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(self)
        self._timer = self.loop.call_later(IDLE_SECONDS, self._close_if_idle)
        if self._settings is not None and len(self.connections) > 2 * self._settings.limits.max_connections:
            self._refuse(too_many_connections())
        if getattr(self.server_state, "is_ending", False):
            self.shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._cancel_write_timer()
        self._unread = b""
        self.pipeline.clear()
        if self._active is not None and not self._active.response_complete:
            self._active.disconnected = True  # uvicorn says so to the last request that came, not to this one
            self._active.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._unread:
            self._unread += data
        elif not self._is_refused and not self._is_taken_again(data):
            self._parse(data)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None and self._settings is not None:
            seconds = self._settings.limits.write_timeout
            self._write_timer = self.loop.call_later(seconds, self._abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._is_idle:
            self._cancel_write_timer()

    # From the parser

    def on_message_begin(self) -> None:
        self._is_between_requests = False
        self._is_in_head = True
        self._body_left = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_in_head:
            return  # a trailer: the request is under way, and nobody asks for them
        if len(self.headers) >= MAX_HEADERS:
            self._has_too_many_headers = True
            raise ValueError("too many headers")  # the parser stops, and `send_400_response` is called
        name = name.lower()
        self.headers.append((name, value))
        if name == b"content-length":
            if value.isdigit():
                self._body_left = int(value[:20])
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._has_advanced = True
        if self._may_be_short():
            self._held_body = b""
        else:
            self._begin()

    def on_body(self, body: bytes) -> None:
        self._has_advanced = True
        self._num_body_bytes += len(body)
        self._body_left = max(0, self._body_left - len(body))
        if self._held_body is None:
            super().on_body(body)
        else:
            self._held_body += body

    def on_message_complete(self) -> None:
        self._is_between_requests = True
        self._has_advanced = True
        self._body_left = 0
        if self._held_body is not None:
            if self._is_taken_by_shortcut(self._held_body):
                self._held_body = None
                return
            self._begin_held()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if not self.flow.write_paused:
            self._cancel_write_timer()
        if isinstance(self.cycle, _ShortCycle) and not self.pipeline:
            self.server_state.total_requests += 1  # reading goes on, and `_close_if_idle` looks at the rest
        else:
            super().on_response_complete()
        if not self.pipeline and self._unread and not self.transport.is_closing():
            data = self._unread
            self._unread = b""
            self._parse(data)
            if not self._unread:
                self.flow.resume_reading()
        if self._is_ending and self._is_idle:
            self.shutdown()

    # From the server

    def shutdown(self) -> None:
        """End once what has arrived is answered; a connection that is kept gets one more chance to ask."""
        self._is_ending = True
        if self._is_idle:
            self.loop.call_later(LAST_CALL_SECONDS, self._close_if_quiet)
        elif not self._unread and not self.pipeline:
            self.cycle.keep_alive = False

    def send_400_response(self, msg: str) -> None:
        if self._has_too_many_headers:
            self._refuse(_headers_too_large())
            return
        reason = "the request is not HTTP/1.1 that can be read"
        self._refuse(RequestError(400, reason, closes_connection=True))

    @property
    def is_holding_back(self) -> bool:
        """Whether no more is to be read for now."""
        return bool(self._unread)

    @property
    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _parse(self, data: bytes) -> None:
        """Feed the parser, until there is a request that must wait for another, or something is wrong."""
        if self._is_between_requests:
            self._arrived = data
        self._parse_pieces(data)
        self._arrived = b""
        if self._held_body is not None and not self._is_refused:
            self._begin_held()  # its end has not arrived

    def _parse_pieces(self, data: bytes) -> None:
        view = memoryview(data)
        start = 0
        while start < len(data):
            if self.pipeline:
                self._unread = data[start:]
                self.flow.pause_reading()
                return
            end = start + max(_PIECE, self._body_left)
            self._parse_piece(view[start:end])
            if self._is_refused or self.transport.is_closing() or self.parser is None:
                return
            start = end

    def _parse_piece(self, piece: memoryview) -> None:
        num_body_bytes = self._num_body_bytes
        self._has_advanced = False
        super().data_received(piece)  # type: ignore[arg-type]
        num_other_bytes = len(piece) - (self._num_body_bytes - num_body_bytes)
        # In a piece in which something ended, what belongs to the next thing is at most all of it.
        if self._has_advanced:
            self._num_other_bytes = 0
        self._num_other_bytes += num_other_bytes
        if self._num_other_bytes > MAX_HEAD:
            self._refuse(_headers_too_large())

    def _begin(self) -> None:
        """Call the application."""
        self.app = self._served_app
        if self._settings is not None and self._is_crowded(self._settings.limits):
            self.app = self._settings.refuse
        super().on_headers_complete()

    def _is_crowded(self, limits: Limits) -> bool:
        most = limits.max_connections
        return len(self.connections) > most or len(self.tasks) > most

    def _begin_held(self) -> None:
        body = self._held_body
        self._held_body = None
        self._begin()
        if body:
            super().on_body(body)

    def _may_be_short(self) -> bool:
        """Whether a request may be one for the shortcut, by its head, and as none is before it."""
        settings = self._settings
        return (
            self.url == _SHORT_URL
            and settings is not None
            and settings.shortcut is not None
            and 0 < self._body_left <= min(MAX_BODY, settings.limits.max_body)
            and self._has_room(settings.limits)
            and not self.expect_100_continue
            and self.parser.get_method() == b"POST"
            and self.parser.get_http_version() == "1.1"
            and not self.parser.should_upgrade()
        )

    def _has_room(self, limits: Limits) -> bool:
        """For a request that is begun at once."""
        return self._is_idle and not self.flow.write_paused and not self._is_crowded(limits)

    def _is_taken_by_shortcut(self, body: bytes) -> bool:
        assert self._settings is not None
        assert self._settings.shortcut is not None
        scope: Any = self.scope
        scope["method"] = "POST"
        scope["path"] = PATH
        scope["raw_path"] = _SHORT_URL
        admitted = self._settings.shortcut.admit(scope)
        if admitted is None:
            return False
        head = self._arrived[: len(self._arrived) - len(body)]
        request = _ShortRequest(head, len(self._arrived), admitted, self.parser.should_keep_alive())
        if not self._begin_short(request, body):
            return False
        # Only where the head ends where it seems to, and the body with all that has arrived.
        if self._arrived.find(_HEAD_END) + len(_HEAD_END) == len(head) <= _MAX_KEPT_HEAD:
            self._last_short = request
        return True

    def _is_taken_again(self, data: bytes) -> bool:
        """Whether the shortcut takes it: the head of the last one that it took, to the byte, and a body."""
        last = self._last_short
        if last is None or len(data) != last.size or not data.startswith(last.head):
            return False
        assert self._settings is not None
        if not self._is_between_requests or not self._has_room(self._settings.limits):
            return False
        self._unset_keepalive_if_required()
        if self._begin_short(last, data[len(last.head) :]):
            return True
        self._last_short = None  # what is not taken once may not be taken the next time
        return False

    def _begin_short(self, request: _ShortRequest, body: bytes) -> bool:
        assert self._settings is not None
        assert self._settings.shortcut is not None
        cycle = _ShortCycle(request.keep_alive and not self._is_ending)
        if not self._settings.shortcut.begin(request.admitted, body, partial(self._reply, cycle)):
            return False
        self.cycle = cycle
        self._active = cycle
        return True

    def _reply(self, cycle: _ShortCycle, status: int, head: bytes, body: bytes) -> None:
        if cycle.disconnected:
            return
        last = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
        default = lines_of(self.server_state.default_headers)
        self.transport.write(b"".join((STATUS_LINE[status], default, head, last, body)))
        cycle.response_complete = True
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._active = cycle
        if self._is_ending and not self.pipeline and not self._unread:
            cycle.keep_alive = False
        super()._start_asgi_task(cycle, app)

    def _refuse(self, error: RequestError) -> None:
        """Answer, where nothing else is being answered, and take no more."""
        if self._is_refused or self.transport.is_closing():
            return
        self._is_refused = True
        if not self._is_idle:
            if not self.cycle.more_body:  # it is the next request that is refused: this one is answered first
                self.cycle.keep_alive = False
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started:
                self._abort()
                return
        self.transport.write(self._refusal(error))
        # Closed with bytes unread, the connection would be reset and the answer lost: they are thrown away.
        self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _refusal(self, error: RequestError) -> bytes:
        headers: Headers = [(b"content-length", b"0"), (b"connection", b"close")]
        body = b""
        if self._settings is not None:
            headers, body = self._settings.refusal(error, self.client)
        lines = [STATUS_LINE[error.status]]
        lines.append(lines_of([*self.server_state.default_headers, *headers]))
        return b"".join(lines) + b"\r\n" + body

    def _close_if_idle(self) -> None:
        self._timer = self.loop.call_later(IDLE_SECONDS, self._close_if_idle)
        if self.transport.is_closing():
            self._abort()  # what remains of its answer was not read all the while
        elif self._is_idle and self.cycle is self._last_cycle:
            self.transport.close()
        self._last_cycle = self.cycle

    def _close_if_quiet(self) -> None:
        """At the end, unless something has arrived that was not read yet."""
        if self.transport.is_closing() or not self._is_idle:
            return
        if self._is_readable():
            self.loop.call_later(0, self._close_if_quiet)
            return
        self.transport.close()

    def _is_readable(self) -> bool:
        connected = self.transport.get_extra_info("socket")
        if connected is None or self.flow.read_paused or not hasattr(select, "poll"):
            return False
        poll = select.poll()
        poll.register(connected.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def _abort(self) -> None:
        self.transport.abort()

    def _cancel_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None


class _NoEvent:
    """Nobody waits for it."""

    def set(self) -> None:
        pass


_NO_EVENT = _NoEvent()


class _ShortCycle(RequestResponseCycle):
    """A request that the shortcut answers, as the rest of a connection sees it."""

    def __init__(self, keep_alive: bool) -> None:
        self.keep_alive = keep_alive
        self.more_body = False
        self.disconnected = False
        self.response_complete = False
        self.message_event: Any = _NO_EVENT


class _Flow(FlowControl):
    """Does not read on, however often it is asked to, while a connection holds something back."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection.transport)
        self._connection = connection

    def resume_reading(self) -> None:
        if not self._connection.is_holding_back:
            super().resume_reading()


def _headers_too_large() -> RequestError:
    reason = f"the headers are too large; at most {MAX_HEAD // 1024} KiB and {MAX_HEADERS} lines"
    return RequestError(431, reason, closes_connection=True)
