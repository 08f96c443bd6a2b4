"""One of several processes that serve: does what its parent says, and ends when its parent does."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection as Channel
from pathlib import Path

import torch

from nescio.errors import NescioError
from nescio.serve._accepting import Share
from nescio.serve._logs import configure_logging
from nescio.serve._metrics import remove_dead_processes
from nescio.serve._models import load_stored
from nescio.serve._process import (
    Server,
    ServerSettings,
    application_of,
    in_one_line,
    spare_garbage_collector,
)
from nescio.serve.app import Application, Shown

# What the parent says, and what is answered.
PREPARE = "prepare"  # with paths of files by name; answered with PREPARED and None, or why not
SHOW = "show"  # what was prepared; answered with SHOWN
STARTED = "started"
PREPARED = "prepared"
SHOWN = "shown"


def run_worker(
    channel: Channel,
    listener: socket.socket,
    share: Share,
    paths: Mapping[str, Path],
    settings: ServerSettings,
    shared_dir: Path,
) -> None:
    """Serve until told to stop. shared_dir: removed where the parent is gone and can't do it."""
    configure_logging(settings.log_format)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it is the parent who reads the files again
    remove_dead_processes()  # this process may be in place of another
    torch.set_num_threads(max(1, torch.get_num_threads() // settings.workers))
    application = _load(paths, settings)
    server = Server(application, share)
    orders = _Orders(channel, application)
    server.on_started = orders.start
    spare_garbage_collector()
    try:
        server.run([listener])
    finally:
        if orders.is_orphaned:
            shutil.rmtree(shared_dir, ignore_errors=True)


def _load(paths: Mapping[str, Path], settings: ServerSettings) -> Application:
    """The application; where the parent is gone, and others have removed its files, this process ends."""
    try:
        return application_of(load_stored(paths), settings)
    except (NescioError, OSError):
        parent = multiprocessing.parent_process()
        if parent is not None and not parent.is_alive():
            sys.exit(0)
        raise


class _Orders:
    """Listens to the parent, in a thread."""

    def __init__(self, channel: Channel, application: Application) -> None:
        self._channel = channel
        self._application = application
        self._prepared: Shown | None = None
        self.is_orphaned = False

    def start(self) -> None:
        threading.Thread(target=self._listen, name="orders", daemon=True).start()

    def _listen(self) -> None:
        try:
            self._channel.send((STARTED, None))
            while True:
                order, content = self._channel.recv()
                if order == PREPARE:
                    self._channel.send((PREPARED, self._prepare(content)))
                elif order == SHOW and self._prepared is not None:
                    # One assignment each: a request that comes between them is of the new models too.
                    self._application.show(self._prepared)
                    self._channel.send((SHOWN, None))
        except (EOFError, OSError):  # the parent is gone: what has arrived is answered, then the port is left
            self.is_orphaned = True
            os.kill(os.getpid(), signal.SIGTERM)

    def _prepare(self, paths: Mapping[str, Path]) -> str | None:
        """Why the models of these files can't be served; None where they can."""
        try:
            self._prepared = self._application.prepare(load_stored(paths))
        except Exception as error:  # noqa: BLE001 - the models from before are served on
            self._prepared = None
            return in_one_line(error)
        return None
