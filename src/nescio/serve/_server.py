"""The server: its address, and the processes that serve there."""

from __future__ import annotations

import errno
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from nescio.errors import InputError
from nescio.serve._logs import configure_logging
from nescio.serve._models import bundled_paths
from nescio.serve._process import ServerSettings, not_an_address_here, serve_alone
from nescio.serve._ray_serve import serve_on_ray
from nescio.serve._supervisor import Supervisor


def run_server(
    paths: Mapping[str, Path],
    settings: ServerSettings,
    *,
    host: str,
    port: int,
    on_ready: Callable[[str, list[str]], None],
    on: str = "here",
    max_replicas: int | None = None,
) -> None:
    """Serve until told to stop.

    paths: model files by name; none for the bundled pair. port: 0 for a free one.
    on_ready: called with the address and the models' names once the server listens.
    on: "here", or "ray" for a cluster, with up to `max_replicas` processes there, as many as are needed.
    """
    paths = paths or bundled_paths()
    configure_logging(settings.log_format)
    if on == "ray":
        most = max(settings.workers, max_replicas or 1)
        serve_on_ray(paths, settings, host=host, port=port, max_replicas=most, on_ready=on_ready)
        return
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to read again
    with closing(_bind(host, port)) as listener:

        def tell() -> None:
            on_ready(_address(listener), list(paths))

        if settings.workers == 1:
            serve_alone(paths, listener, settings, tell)
        else:
            Supervisor(paths, listener, settings, tell).run()


def _bind(host: str, port: int) -> socket.socket:
    """A socket that listens at the address, or an error that says why not."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise not_an_address_here(host, error) from error
    listener = socket.socket(family, kind)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise not_an_address_here(host, error) from error
        raise InputError(
            f"can't listen at {host}, port {port}: {error.strerror}; choose another with --port"
        ) from error
    return listener


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    if ":" in host:
        host = f"[{host}]"
    return f"http://{host}:{port}"
