"""The server: its address, its processes, its end."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

import uvicorn
from starlette.routing import Router
from uvicorn.supervisors import Multiprocess

from nescio.errors import InputError
from nescio.serve._metrics import SHARED_DIR
from nescio.serve._models import bundled_paths, load_models
from nescio.serve._worker import worker_app
from nescio.serve.app import create_app
from nescio.serve.limits import Limits

_SHUTDOWN_SECONDS = 30  # for accepted requests to finish when the server is told to stop
_KEEP_ALIVE_SECONDS = 20


def run_server(
    paths: Mapping[str, Path],
    limits: Limits,
    *,
    host: str,
    port: int,
    workers: int,
    on_ready: Callable[[str, list[str]], None],
) -> None:
    """Serve until told to stop.

    paths: model files by name; none for the bundled pair. port: 0 for a free one.
    on_ready: called with the address and the models' names once the server listens.
    """
    paths = paths or bundled_paths()
    models = load_models(paths)
    with closing(_bind(host, port)) as listener:
        on_ready(_address(listener), list(models))
        if workers == 1:
            # uvicorn raises the signal again once all is finished; an end that was asked for is no failure.
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            config = _config(partial(create_app, models, limits), limits, workers)
            uvicorn.Server(config).run([listener])
        else:
            config = _config(partial(worker_app, paths, limits, workers), limits, workers)
            _run_workers(config, listener)


def _run_workers(config: uvicorn.Config, listener: socket.socket) -> None:
    # Each process counts for itself; whichever is asked adds up what all have written here.
    with tempfile.TemporaryDirectory(prefix="nescio-") as shared:
        os.environ[SHARED_DIR] = shared
        listener.set_inheritable(True)
        Multiprocess(config, [listener]).run()


def _config(factory: Callable[[], Router], limits: Limits, workers: int) -> uvicorn.Config:
    return uvicorn.Config(
        factory,
        factory=True,
        http="nescio.serve._connection:Connection",
        limit_concurrency=None,  # Connection counts them, and refuses as the service does
        workers=workers,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )


def _bind(host: str, port: int) -> socket.socket:
    """A socket that listens at the address, or an error that says why not."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise InputError(
            f"--host must be an address of this machine, got {host}: {error.strerror}"
        ) from error
    listener = socket.socket(family, kind)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise InputError(
            f"can't listen at {host}, port {port}: {error.strerror}; choose another with --port"
        ) from error
    return listener


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    if ":" in host:
        host = f"[{host}]"
    return f"http://{host}:{port}"
