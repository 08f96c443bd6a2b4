"""Refusal: why a request gets no opinion, as a status and one line."""

from __future__ import annotations

from starlette.responses import JSONResponse


class Refusal(Exception):  # noqa: N818 - the client's error, not the service's
    """Ends a request with this status and reason; retry_after: seconds until it is worth another try."""

    def __init__(self, status: int, reason: str, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.status, self.retry_after = status, retry_after

    def response(self) -> JSONResponse:
        """What the client sees."""
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        if self.status in (408, 413):
            headers["Connection"] = "close"  # the rest of the body is not read
        return JSONResponse({"error": str(self)}, self.status, headers)
