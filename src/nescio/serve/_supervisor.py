"""The parent of several processes that serve: starts and replaces them, and gives them the same models."""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection as Channel
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from nescio.errors import ModelFileError, NescioError
from nescio.serve._accepting import Share, new_shares
from nescio.serve._files import ModelFiles
from nescio.serve._metrics import SHARED_DIR
from nescio.serve._models import store_networks
from nescio.serve._process import (
    WATCH_SECONDS,
    ServerSettings,
    has_terminal,
    log_failed_reload,
    log_reload,
)
from nescio.serve._worker import PREPARE, PREPARED, SHOW, SHOWN, STARTED, run_worker

_END_SECONDS = 40.0  # within which workers end; longer than they take to finish what they have accepted
_PREPARE_SECONDS = 300.0
_RESTART_SECONDS = 1.0  # at least between two starts of one worker

_spawn = multiprocessing.get_context("spawn")
_log = logging.getLogger("nescio.serve")


class StartError(NescioError):
    """A worker could not be started."""


class _Worker:
    """A process, and the channel to it."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self.channel, theirs = _spawn.Pipe()
        self.process: SpawnProcess = _spawn.Process(target=run_worker, args=(theirs, *arguments))
        self.process.start()
        theirs.close()
        self.start_time = time.monotonic()
        self.has_started = False

    @property
    def has_ended(self) -> bool:
        return self.process.exitcode is not None

    def ask(self, order: str, content: Any, answer: str, timeout: float) -> tuple[bool, Any]:
        """Whether it answered, and what."""
        try:
            self.channel.send((order, content))
            end = time.monotonic() + timeout
            while self.channel.poll(max(0.0, end - time.monotonic())):
                kind, said = self.channel.recv()
                if kind == STARTED:
                    self.has_started = True
                if kind == answer:
                    return True, said
        except (EOFError, OSError):
            pass  # it has ended; it is replaced afterwards
        return False, None


class Supervisor:
    """Serves files, by name, in several processes, until told to stop.

    All processes serve copies of the files as they were when they were read: one that is started later, in
    place of another, does not serve what has been put there since.
    """

    def __init__(
        self,
        paths: Mapping[str, Path],
        listener: socket.socket,
        settings: ServerSettings,
        on_ready: Callable[[], None],
    ) -> None:
        self._files = ModelFiles(paths)
        self._listener = listener
        self._settings = settings
        self._on_ready = on_ready
        self._shared_dir = Path(tempfile.mkdtemp(prefix="nescio-"))
        self._copies: dict[str, Path] = {}
        self._num_reads = 0
        self._shares = new_shares(settings.workers)
        self._workers: list[_Worker] = []
        self._is_ending = False
        self._must_reload = False
        self._has_terminal = has_terminal()

    def run(self) -> None:
        """Until SIGTERM or SIGINT. Raises NescioError where the models can't be served."""
        # Each process counts for itself; whichever is asked adds up what all have written here.
        os.environ[SHARED_DIR] = str(self._shared_dir)
        try:
            self._copies = self._read()
            self._catch_signals()
            self._on_ready()
            self._workers = [self._new_worker(share) for share in self._shares]
            next_look = time.monotonic() + WATCH_SECONDS
            while not self._is_ending:
                self._hear_workers()
                self._replace_ended()
                if self._settings.watches and time.monotonic() > next_look:
                    next_look = time.monotonic() + WATCH_SECONDS
                    self._must_reload = self._must_reload or self._files.have_changed()
                if self._must_reload:
                    self._must_reload = False
                    self._reload()
        finally:
            self._end_workers()
            shutil.rmtree(self._shared_dir, ignore_errors=True)

    def _catch_signals(self) -> None:
        def end(*_: object) -> None:
            self._is_ending = True

        def hang_up(*_: object) -> None:
            if self._has_terminal and not has_terminal():
                self._is_ending = True  # the terminal was closed
            else:
                self._must_reload = True

        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
        if hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, hang_up)

    def _read(self) -> dict[str, Path]:
        """Copies of the files as they are now."""
        self._num_reads += 1
        self._files.mark_as_read()
        folder = self._shared_dir / f"models-{self._num_reads}"
        copies: dict[str, Path] = {}
        try:
            copies = self._files.copy_to(folder)
            # Here too: what is wrong at the start is said by the command itself, in one line.
            store_networks(copies, self._settings.runtime)
        except Exception as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, ModelFileError):
                raise ModelFileError(self._files.in_words(error, copies)) from error
            raise
        return copies

    def _new_worker(self, share: Share) -> _Worker:
        share.clear()  # of the one before it
        return _Worker((self._listener, share, self._copies, self._settings, self._shared_dir))

    def _hear_workers(self) -> None:
        """Wait for one to say something or to end, or for a signal."""
        handles: list[Any] = [worker.process.sentinel for worker in self._workers]
        handles += [worker.channel for worker in self._workers if not worker.has_started]
        ready = wait(handles, timeout=0.2)
        for worker in self._workers:
            if worker.channel in ready and _received(worker.channel) == STARTED:
                worker.has_started = True

    def _replace_ended(self) -> None:
        for place, worker in enumerate(self._workers):
            if not worker.has_ended or self._is_ending:
                continue
            code = worker.process.exitcode
            if not worker.has_started and not any(one.has_started for one in self._workers):
                raise StartError(f"a worker could not be started: it ended with code {code}")
            if time.monotonic() < worker.start_time + _RESTART_SECONDS:
                time.sleep(0.05)
                continue
            worker.channel.close()
            self._workers[place] = self._new_worker(self._shares[place])
            _log.warning(
                "worker %d ended with code %s; worker %d is started in its place",
                worker.process.pid,
                code,
                self._workers[place].process.pid,
            )

    def _reload(self) -> None:
        """All workers read the files as they are now, and only then all of them serve them; or none does."""
        try:
            copies = self._read()
        except Exception as error:  # noqa: BLE001 - the models from before are served on
            log_failed_reload(error)
            return
        reason = self._prepare_all(copies)
        if reason is not None:
            log_failed_reload(reason)
            self._remove(copies)
            return
        for worker in self._workers:
            worker.ask(SHOW, None, SHOWN, _PREPARE_SECONDS)
        old = self._copies
        self._copies = copies
        self._remove(old)
        log_reload(self._files.paths)

    def _prepare_all(self, copies: Mapping[str, Path]) -> str | None:
        """Why the workers can't serve these; None where they can."""
        for worker in self._workers:
            answered, reason = worker.ask(PREPARE, copies, PREPARED, _PREPARE_SECONDS)
            if not answered and not worker.has_ended:
                # It may answer later, and must not be taken to have prepared what comes then.
                worker.process.kill()
                worker.process.join()
            if answered and reason is not None:
                return self._files.in_words(Exception(reason), copies)
        return None

    def _remove(self, copies: Mapping[str, Path]) -> None:
        folders = {copy.parent for copy in copies.values()}
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)

    def _end_workers(self) -> None:
        # Not held open here while they end: what is not accepted then is refused, not left without an answer.
        self._listener.close()
        for worker in self._workers:
            if not worker.has_ended:
                worker.process.terminate()
        end = time.monotonic() + _END_SECONDS
        for worker in self._workers:
            worker.process.join(max(0.0, end - time.monotonic()))
            if not worker.has_ended:
                worker.process.kill()
                worker.process.join()
            worker.channel.close()


def _received(channel: Channel) -> str | None:
    try:
        kind, _ = channel.recv()
    except (EOFError, OSError):
        return None  # it has ended
    return str(kind)
