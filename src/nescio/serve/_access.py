"""Who may ask: by token, and under which host and path."""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.types import Scope

from nescio.errors import InputError
from nescio.serve._errors import RequestError

OPEN_PATHS = frozenset(("/healthz", "/readyz"))  # for those who look whether the service lives
# The page asks for the token itself: a browser can't send one to get it. There is nothing secret in it.
PAGE = Path(__file__).parent / "page"
PAGE_FILES = frozenset(("/", *(f"/{path.name}" for path in PAGE.iterdir())))
_BEARER = b"bearer "
_HOST_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_ROOT_PATH = re.compile(r"(/(?!\.\.?(/|$))[A-Za-z0-9._~@:+,;=-]+)*")


@dataclass(frozen=True)
class Access:
    """What a request must bring.

    token: sent as `Authorization: Bearer TOKEN`; None for nothing. allowed_hosts: names and addresses without
    ports; none for any. root_path: where a proxy in front shows the service, "" for the root.
    """

    token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    root_path: str = ""

    def __post_init__(self) -> None:
        if self.token is not None and not _is_token(self.token):
            raise InputError("token must be printable ASCII characters, one or more")
        for host in self.allowed_hosts:
            if not _HOST_NAME.fullmatch(host) and _address_of(host) is None:
                raise InputError(
                    f"allowed_hosts must be whole names or addresses as clients send them, without ports, "
                    f"got {host!r}"
                )
        if not _ROOT_PATH.fullmatch(self.root_path):
            raise InputError(
                f"root_path must be like /models or /team/models, without a slash at its end, got "
                f"{self.root_path!r}"
            )

    def enter(self, scope: Scope) -> str:
        """The path within the service; the scope then has it under the root path too.

        A proxy may take the root path away, or leave it: both are understood. Raises RequestError for
        what does not bring what it must.
        """
        path: str = scope["path"]
        root_path = self.root_path or scope.get("root_path", "")
        within = path
        if root_path and (path == root_path or path.startswith(root_path + "/")):
            within = path.removeprefix(root_path) or "/"
        elif self.root_path:
            scope["path"] = self.root_path + path
        if self.root_path:
            scope["root_path"] = self.root_path
        if within not in OPEN_PATHS and (self.allowed_hosts or self.token is not None):
            self._require(within, scope["headers"])
        return within

    def _require(self, path: str, headers: Sequence[tuple[bytes, bytes]]) -> None:
        by_name = dict(headers)
        if self.allowed_hosts:
            hosts = {_without_port(value.decode("latin-1")) for name, value in headers if name == b"host"}
            if not hosts or not hosts.issubset(self.allowed_hosts):
                raise RequestError(
                    421,
                    "this host is not served here; --allowed-host adds it when the service is started",
                    closes_connection=True,
                )
        if self.token is not None and path not in PAGE_FILES:
            given = by_name.get(b"authorization", b"")
            # Compared in a time that does not tell how much of it is right.
            is_right = hmac.compare_digest(given[len(_BEARER) :], self.token.encode())
            if given[: len(_BEARER)].lower() != _BEARER or not is_right:
                raise RequestError(
                    401,
                    "send the token of the service, as Authorization: Bearer TOKEN",
                    asks_for_token=True,
                    closes_connection=True,
                )


def host_names(hosts: Iterable[str]) -> tuple[str, ...]:
    """As requests are compared with them: in lower case, addresses without brackets and in short.

    Raises InputError for one text, whose characters would be taken for hosts.
    """
    if isinstance(hosts, str):
        raise InputError(f"allowed_hosts must be a list of hosts, got the text {hosts!r}")
    return tuple(_short(host.lower()) for host in hosts)


def _short(host: str) -> str:
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return _address_of(host) or host.removesuffix(".")


def _address_of(text: str) -> str | None:
    """An IP address in its short form; None for what is none, and with a zone, which clients do not send."""
    try:
        return None if "%" in text else str(ipaddress.ip_address(text))
    except ValueError:
        return None


def _is_token(text: str) -> bool:
    return text.isascii() and text.isprintable() and bool(text.strip())


def _without_port(host: str) -> str:
    """Of `name:port`, `address:port` or `[address]:port`, in lower case."""
    host = host.lower()
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[")
    return host.partition(":")[0].removesuffix(".")
