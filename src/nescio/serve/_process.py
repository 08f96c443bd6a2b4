"""One process that serves: the application, the server around it, and other models while it runs."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from nescio.errors import InputError, NescioError
from nescio.inference.model import TrainedModel
from nescio.serve._accepting import NOT_THERE, Acceptor, Share
from nescio.serve._access import Access
from nescio.serve._connection import LAST_CALL_SECONDS, State
from nescio.serve._files import ModelFiles
from nescio.serve._models import load_models
from nescio.serve.app import Application, Shown
from nescio.serve.limits import Limits

_SHUTDOWN_SECONDS = 30  # for accepted requests to finish when the server is told to stop
_KEEP_ALIVE_SECONDS = 20
WATCH_SECONDS = 1.0
# Of the garbage collector: so many objects more before it looks, where it is usually 700. A batch of requests
# makes some thousands, which are nearly all gone with it.
_GC_OBJECTS = 10_000

_log = logging.getLogger("nescio.serve")


@dataclass(frozen=True)
class ServerSettings:
    """How to serve, the same in every process.

    workers: processes. log_format: "text" or "json". watches: whether model files are read again when they
    change. runtime: what computes the networks, one of `nescio.serve._runtime.RUNTIMES`.
    """

    limits: Limits = field(default_factory=Limits)
    access: Access = field(default_factory=Access)
    workers: int = 1
    access_log: bool = False
    log_format: str = "text"
    watches: bool = False
    runtime: str = "torch"


class Server(uvicorn.Server):
    """uvicorn's, with an end at which requests that have arrived are answered.

    share: of the connections, where several processes take them from the same sockets.
    """

    def __init__(self, application: Application, share: Share | None = None) -> None:
        super().__init__(
            uvicorn.Config(
                application.router,
                http="nescio.serve._connection:Connection",
                limit_concurrency=None,  # Connection counts them, and refuses as the service does
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                lifespan="on",
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            )
        )
        self.server_state = State()
        self._share = share
        self._acceptors: list[Acceptor] = []
        self.on_started: Callable[[], None] = lambda: None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._share is None or sockets is None or sys.platform == "win32":  # its loops have no add_reader
            await super().startup(sockets)
        else:
            await super().startup([])
            for listener in sockets:
                self._acceptors.append(Acceptor(listener, self._protocol, self._num_connections, self._share))
            servers: list[Any] = self.servers
            servers += self._acceptors
        self.on_started()

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        for acceptor in self._acceptors:
            acceptor.count()
        return await super().on_tick(counter)

    def _num_connections(self) -> int:
        """As the others are to see it: while the server ends, new clients are left to them."""
        assert isinstance(self.server_state, State)
        if self.server_state.is_ending:
            return NOT_THERE
        return len(self.server_state.connections)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept for a while still, and answer; then finish what was accepted."""
        assert isinstance(self.server_state, State)
        self.server_state.is_ending = True
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await asyncio.sleep(LAST_CALL_SECONDS)
        # What closing the listener would reset is taken from a copy of it.
        listeners = [one.dup() for one in sockets or []]
        for server in self.servers:
            server.close()
        self.servers = []
        for listener in sockets or []:
            listener.close()
        for listener in listeners:
            await self._accept_waiting(listener)
        for acceptor in self._acceptors:
            await acceptor.wait_closed()
        await super().shutdown(sockets)

    async def _accept_waiting(self, listener: socket.socket) -> None:
        """All that wait at a listener, which is closed then."""
        listener.setblocking(False)
        waiting = []
        while True:
            try:
                waiting.append(listener.accept()[0])
            except OSError:  # there is none
                break
        # At once: whoever comes between the last of them and this is reset, whoever comes later is refused.
        listener.close()
        for connected in waiting:
            connected.setblocking(False)
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, connected)

    def _protocol(self) -> asyncio.Protocol:
        protocol: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol


def new_application(paths: Mapping[str, Path], settings: ServerSettings) -> Application:
    """With the models of these files. Raises NescioError."""
    return application_of(load_models(paths, settings.runtime), settings)


def application_of(models: Mapping[str, TrainedModel], settings: ServerSettings) -> Application:
    """With these models."""
    return Application(models, settings.limits, settings.access, access_log=settings.access_log)


def spare_garbage_collector() -> None:
    """What there is now stays: look through it no more.

    Torch and the rest are some hundred thousand objects. Each time the collector went through all of them,
    every request that was under way waited for it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_OBJECTS, *gc.get_threshold()[1:])


def serve_alone(
    paths: Mapping[str, Path],
    listener: socket.socket,
    settings: ServerSettings,
    on_ready: Callable[[], None],
) -> None:
    """In this process, until told to stop. SIGHUP, or a change that is watched for, reads the files again.

    on_ready: called once the models are there.
    """
    files = ModelFiles(paths)
    application = new_application(paths, settings)
    server = Server(application)
    alone = _Alone(application, server, files, settings)
    server.on_started = alone.start
    # uvicorn raises the signal again once all is finished; an end that was asked for is no failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    spare_garbage_collector()
    on_ready()
    server.run([listener])


class _Alone:
    """Reads the models again, in a thread beside the event loop."""

    def __init__(
        self, application: Application, server: Server, files: ModelFiles, settings: ServerSettings
    ) -> None:
        self._application = application
        self._server = server
        self._files = files
        self._settings = settings
        self._is_wanted: asyncio.Event
        self._has_terminal = has_terminal()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._is_wanted = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._reload_when_wanted())]
        if self._settings.watches:
            self._tasks.append(loop.create_task(self._watch()))
        if hasattr(signal, "SIGHUP"):
            loop.add_signal_handler(signal.SIGHUP, self._hang_up)

    def _hang_up(self) -> None:
        if self._has_terminal and not has_terminal():
            self._server.should_exit = True  # the terminal was closed
        else:
            self._is_wanted.set()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if self._files.have_changed():
                self._is_wanted.set()

    async def _reload_when_wanted(self) -> None:
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            self._files.mark_as_read()
            try:
                shown = await asyncio.to_thread(self._prepare)
            except Exception as error:  # noqa: BLE001 - the models from before are served on
                log_failed_reload(error)
            else:
                self._application.show(shown)
                log_reload(self._files.paths)

    def _prepare(self) -> Shown:
        return self._application.prepare(load_models(self._files.paths, self._settings.runtime))


def not_an_address_here(host: str, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(f"--host must be an address of this machine, got {host!r}: {reason}")


def has_terminal() -> bool:
    """Whether somebody may hang up."""
    try:
        return os.isatty(0)
    except OSError:
        return False


def log_reload(paths: Mapping[str, Path]) -> None:
    _log.info("the models were read again: %s", ", ".join(paths))


def in_one_line(error: Exception) -> str:
    """What an error says; with its name where it is none of those that are written for people."""
    if isinstance(error, (NescioError, OSError)):
        return str(error)
    return f"{type(error).__name__}: {error}"


def log_failed_reload(reason: Exception | str) -> None:
    if isinstance(reason, Exception):
        reason = in_one_line(reason)
    _log.error("the models were not read again, those from before are served on: %s", reason)
