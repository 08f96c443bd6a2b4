"""The same application as a deployment of Ray Serve: replicas on the machines of a cluster."""

from __future__ import annotations

import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from nescio._ray import start_ray
from nescio.errors import MissingExtraError
from nescio.serve._files import ModelFiles
from nescio.serve._models import load_models
from nescio.serve._process import (
    WATCH_SECONDS,
    ServerSettings,
    application_of,
    log_failed_reload,
    log_reload,
    not_an_address_here,
)

_NAME = "nescio"
_ONGOING = 256  # requests that a replica may have under way; more of them share its forward passes
_TARGET_ONGOING = 32  # above this, on average, there is another replica where there may be one
_HEALTH_SECONDS = 2.0  # between two looks whether a replica lives


def serve_on_ray(
    paths: Mapping[str, Path],
    settings: ServerSettings,
    *,
    host: str,
    port: int,
    max_replicas: int,
    on_ready: Callable[[str, list[str]], None],
) -> None:
    """Serve until told to stop, with `settings.workers` to `max_replicas` replicas.

    All replicas serve what was read here: the machines need not see the files. SIGHUP, or a change that is
    watched for, reads them again, and Ray replaces the replicas one after the other. Raises NescioError.
    """
    try:
        from ray import serve
    except ImportError as error:
        raise MissingExtraError("cluster", error.name or "ray[serve]") from error
    files = ModelFiles(paths)
    load_models(paths, settings.runtime)  # what is wrong is said before a cluster is started
    start_ray()
    port = port or _free_port(host)
    must_end = threading.Event()
    must_reload = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: must_end.set())
    signal.signal(signal.SIGINT, lambda *_: must_end.set())
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: must_reload.set())
    try:
        serve.start(http_options={"host": host, "port": port})
        _deploy(files, settings, max_replicas)
        on_ready(f"http://{host}:{port}", list(paths))
        while not must_end.wait(WATCH_SECONDS):
            if must_reload.is_set() or (settings.watches and files.have_changed()):
                must_reload.clear()
                _redeploy(files, settings, max_replicas)
    finally:
        serve.shutdown()  # type: ignore[no-untyped-call]


class Replica:
    """The application in one process of the cluster.

    contents: model files by name, with their endings.
    """

    def __init__(self, contents: Mapping[str, tuple[str, bytes]], settings: ServerSettings) -> None:
        with tempfile.TemporaryDirectory(prefix="nescio-") as folder:
            paths = {}
            for number, (name, (suffix, content)) in enumerate(contents.items()):
                paths[name] = Path(folder) / f"{number}{suffix}"
                paths[name].write_bytes(content)
            self._application = application_of(load_models(paths, settings.runtime), settings)

    async def __call__(self, request: Request) -> Response:
        """Answer a request that Ray's proxy has passed on."""
        response = Response()
        parts: list[bytes] = []

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                response.status_code = message["status"]
                response.raw_headers = list(message["headers"])
            else:
                parts.append(message.get("body", b""))

        await self._application.router(dict(request.scope), request.receive, send)
        response.body = b"".join(parts)
        return response


def _deploy(files: ModelFiles, settings: ServerSettings, max_replicas: int) -> None:
    from ray import serve

    contents = {name: (path.suffix, path.read_bytes()) for name, path in files.paths.items()}
    deployment: Any = serve.deployment(
        name=_NAME,
        max_ongoing_requests=_ONGOING,
        health_check_period_s=_HEALTH_SECONDS,
        autoscaling_config={
            "min_replicas": settings.workers,
            "initial_replicas": settings.workers,
            "max_replicas": max_replicas,
            "target_ongoing_requests": _TARGET_ONGOING,
        },
    )(Replica)
    serve.run(deployment.bind(contents, settings), name=_NAME, route_prefix="/")


def _redeploy(files: ModelFiles, settings: ServerSettings, max_replicas: int) -> None:
    files.mark_as_read()
    try:
        load_models(files.paths, settings.runtime)
        _deploy(files, settings, max_replicas)
    except Exception as error:  # noqa: BLE001 - the models from before are served on
        log_failed_reload(error)
    else:
        log_reload(files.paths)


def _free_port(host: str) -> int:
    try:
        with socket.create_server((host, 0)) as free:
            return int(free.getsockname()[1])
    except OSError as error:
        raise not_an_address_here(host, error) from error
