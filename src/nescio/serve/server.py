"""The server: its address, its processes, its end."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import uvicorn
from uvicorn.supervisors import Multiprocess

from nescio.errors import InputError
from nescio.serve.app import Application, create_app
from nescio.serve.metrics import SHARED
from nescio.serve.served import load_models
from nescio.serve.worker import worker_app

PATIENCE = 30  # seconds that accepted requests get to finish when the server is told to stop
KEEP_ALIVE = 20
MOST_CONNECTIONS = 1000  # of a process; to the next one it says 503


def run(
    paths: list[Path], host: str, port: int, workers: int, ready: Callable[[str, list[str]], None]
) -> None:
    """Serve until told to stop. ready: called with the address and the models' names when both are there."""
    models = load_models(paths)
    with closing(_bind(host, port)) as listener, ExitStack() as stack:
        ready(_address(listener), list(models))
        if workers == 1:
            # uvicorn raises the signal again once all is finished; an end that was asked for is no failure.
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            uvicorn.Server(_config(lambda: create_app(models), workers)).run([listener])
            return
        # Each process counts for itself; whichever is asked adds up what all have written here.
        os.environ[SHARED] = stack.enter_context(tempfile.TemporaryDirectory(prefix="nescio-"))
        listener.set_inheritable(True)
        Multiprocess(_config(partial(worker_app, paths, workers), workers), [listener]).run()


def _config(factory: Callable[[], Application], workers: int) -> uvicorn.Config:
    return uvicorn.Config(
        factory,
        factory=True,
        http="nescio.serve.connection:Connection",
        limit_concurrency=MOST_CONNECTIONS,
        workers=workers,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=PATIENCE,
    )


def _bind(host: str, port: int) -> socket.socket:
    """A socket that listens at the address, or a clear word why not."""
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
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
