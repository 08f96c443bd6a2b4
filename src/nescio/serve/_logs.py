"""Logs on stderr, as text or as a JSON object a line: requests, errors, reloads and restarts of workers."""

from __future__ import annotations

import json
import logging
import logging.config
import time
from typing import Any

FORMATS = ("text", "json")
_ACCESS = "access"  # the field of a log record that holds what is known of a request
_log = logging.getLogger("nescio.serve.access")


def configure_logging(log_format: str) -> None:
    """For this process. log_format: one of FORMATS."""
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {
                "text": {"()": "nescio.serve._logs.TextFormatter"},
                "json": {"()": "nescio.serve._logs.JSONFormatter"},
            },
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": log_format}},
            "loggers": {
                "nescio.serve": {"level": "INFO", "handlers": ["stderr"], "propagate": False},
                # Its warnings are about what clients do, which the service counts and logs itself.
                "uvicorn": {"level": "ERROR", "handlers": ["stderr"], "propagate": False},
            },
        }
    )


def log_access(scope: Any, status: int, seconds: float) -> None:
    """One request. Its query is left out."""
    client = scope.get("client")
    fields = {
        "client": client[0] if client else None,
        "method": scope["method"],
        "path": scope.get("raw_path", scope["path"].encode()).decode("latin-1"),
        "status": status,
        "seconds": round(seconds, 6),
    }
    words = "{client} {method} {path} {status} {seconds:.4f} s".format(**fields)
    _log.info("%s", words, extra={_ACCESS: fields})


class TextFormatter(logging.Formatter):
    """Time, level, message; below it a traceback where there is one."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime


class JSONFormatter(TextFormatter):
    """An object with time, level, logger, process and message, the fields of a request, and a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        entry: dict[str, Any] = {
            "time": f"{self.formatTime(record, self.datefmt)}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        entry.update(getattr(record, _ACCESS, {}))
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)
