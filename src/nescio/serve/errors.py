"""Refusal: why a request gets no opinion, as a status and one line."""

from __future__ import annotations

from starlette.responses import JSONResponse

UNFORESEEN = "something went wrong in the service; its log says what"


class Refusal(Exception):  # noqa: N818 - the client's error, not the service's
    """Ends a request with this status and reason.

    retry_after: seconds until it is worth another try; unread: whether the rest of the body is left unread.
    """

    def __init__(
        self, status: int, reason: str, retry_after: int | None = None, *, unread: bool = False
    ) -> None:
        super().__init__(reason)
        self.status, self.retry_after, self.unread = status, retry_after, unread

    def response(self) -> JSONResponse:
        """What the client sees."""
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        if self.unread:
            headers["Connection"] = "close"
        return JSONResponse({"error": str(self)}, self.status, headers)
