"""Acceptor: takes connections from a socket that several processes share, so that each has about as many.

Left to itself, a connection goes to whichever process is quickest to take it: of clients that come together
and stay, one process may get most. Here a process that has more than another leaves a new one to it for a
moment.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import socket
from collections.abc import Callable
from ctypes import Array, c_long

_LEFT_SECONDS = 0.002  # for which a connection is left to another process
_PAUSE_SECONDS = 1.0  # after an error, as when there are too many open files
NOT_THERE = 2**30  # connections of a process that does not serve

_log = logging.getLogger("nescio.serve")


class Share:
    """How many connections one of several processes has, beside the others.

    counts: of all of them, in memory that they share. place: of this one.
    """

    def __init__(self, counts: Array[c_long], place: int) -> None:
        self._counts = counts
        self._place = place

    def set(self, num_connections: int) -> None:
        self._counts[self._place] = num_connections

    def clear(self) -> None:
        """The process does not serve, or not yet: nothing is left to it."""
        self._counts[self._place] = NOT_THERE

    @property
    def is_larger(self) -> bool:
        """Than that of another process."""
        return bool(self._counts[self._place] > min(self._counts))


def new_shares(num_processes: int) -> list[Share]:
    """For each of so many processes its own, to be given to it at its start."""
    counts = multiprocessing.get_context("spawn").RawArray(c_long, [NOT_THERE] * num_processes)
    return [Share(counts, place) for place in range(num_processes)]


class Acceptor:
    """Takes connections while it is open; for uvicorn, one of its servers.

    num_connections: of this process, now. share: of this process.
    """

    def __init__(
        self,
        listener: socket.socket,
        new_protocol: Callable[[], asyncio.Protocol],
        num_connections: Callable[[], int],
        share: Share,
    ) -> None:
        self._listener = listener
        self._new_protocol = new_protocol
        self._num_connections = num_connections
        self._share = share
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[object]] = set()
        self._timer: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self._listen()

    def count(self) -> None:
        """Tell the other processes how many connections there are; to be called now and then."""
        self._share.set(self._num_connections() + len(self._tasks))

    def close(self) -> None:
        """Take no more."""
        self._share.clear()
        self._loop.remove_reader(self._listener)
        if self._timer is not None:
            self._timer.cancel()

    async def wait_closed(self) -> None:
        """Until those that were taken are connected."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _listen(self) -> None:
        self._timer = None
        self.count()
        self._loop.add_reader(self._listener, self._on_arrival)

    def _on_arrival(self) -> None:
        self.count()
        if self._share.is_larger:
            self._pause(_LEFT_SECONDS, self._accept_and_listen)
        else:
            self._accept()

    def _accept_and_listen(self) -> None:
        """What is still there has been left to the others for long enough."""
        self._listen()
        self._accept()

    def _pause(self, seconds: float, then: Callable[[], None]) -> None:
        self._loop.remove_reader(self._listener)
        self._timer = self._loop.call_later(seconds, then)

    def _accept(self) -> None:
        try:
            connected, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):  # another process has it, or the client is gone
            return
        except OSError as error:
            _log.error("no connection can be accepted: %s", error.strerror)
            self._pause(_PAUSE_SECONDS, self._listen)
            return
        connected.setblocking(False)
        task = self._loop.create_task(self._loop.connect_accepted_socket(self._new_protocol, connected))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.count()
