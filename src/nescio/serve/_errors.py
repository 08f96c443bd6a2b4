"""RequestError: why a request gets no opinion, as a status and one line."""

from __future__ import annotations

import logging

from starlette.responses import JSONResponse

from nescio.errors import NescioError

INTERNAL_ERROR = "something went wrong in the service; its log says what"

_log = logging.getLogger(__name__)


class RequestError(NescioError):
    """Ends a request with this status and this reason.

    retry_after: seconds until another try is worth it, for the header Retry-After.
    closes_connection: set where the rest of the body is left unread. asks_for_token: for WWW-Authenticate.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        retry_after: int | None = None,
        *,
        closes_connection: bool = False,
        asks_for_token: bool = False,
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.retry_after = retry_after
        self.closes_connection = closes_connection
        self.asks_for_token = asks_for_token

    def response(self) -> JSONResponse:
        headers = {}
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
        if self.closes_connection:
            headers["Connection"] = "close"
        if self.asks_for_token:
            headers["WWW-Authenticate"] = "Bearer"
        return JSONResponse({"error": str(self)}, self.status, headers)


def refusal_for(error: Exception, method: str, path: str) -> RequestError:
    """What a client is told of an error. One that was not foreseen is logged, and no more is said of it."""
    if isinstance(error, RequestError):
        return error
    _log.error("unforeseen error in %s %s", method, path, exc_info=error)
    return RequestError(500, INTERNAL_ERROR)


def too_busy() -> RequestError:
    return RequestError(503, "too many requests are waiting; try again", retry_after=1)


def too_late() -> RequestError:
    return RequestError(503, "the answer took too long; try again", retry_after=1)


def too_many_connections() -> RequestError:
    return RequestError(503, "too many connections; try again", retry_after=1, closes_connection=True)
