import asyncio
import errno
import socket
from contextlib import asynccontextmanager

from nescio.serve._accepting import Acceptor, new_shares


class Greeter(asyncio.Protocol):
    """Says its name to whoever comes, and keeps the connection."""

    def __init__(self, name, connections):
        self._name = name
        self._connections = connections

    def connection_made(self, transport):
        self._connections.add(self)
        transport.write(self._name)

    def connection_lost(self, error):
        self._connections.discard(self)


class Scene:
    """A socket, and what several processes would have, here beside each other in one event loop."""

    def __init__(self, listener):
        self.listener = listener
        self.acceptors = []
        self.clients = []

    def process(self, name, share, listener=None):
        """Its connections."""
        connections = set()
        acceptor = Acceptor(
            listener or self.listener.dup(),
            lambda: Greeter(name, connections),
            lambda: len(connections),
            share,
        )
        self.acceptors.append(acceptor)
        return connections

    async def names(self, count):
        """What so many clients that come one after the other hear."""
        names = []
        for _ in range(count):
            reader, writer = await asyncio.open_connection(*self.listener.getsockname())
            self.clients.append(writer)
            names.append(await asyncio.wait_for(reader.readexactly(1), 10))
        return names

    async def leave(self):
        """All clients go."""
        for client in self.clients:
            client.close()
            await client.wait_closed()
        self.clients = []


@asynccontextmanager
async def scene():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Scene(listener)
        try:
            yield made
        finally:
            await made.leave()
            for acceptor in made.acceptors:
                acceptor.close()
                await acceptor.wait_closed()
                acceptor._listener.close()


def test_processes_get_equally_many():
    async def scenario():
        async with scene() as here:
            for name, share in zip((b"a", b"b"), new_shares(2), strict=True):
                here.process(name, share)
            return await here.names(20)

    names = asyncio.run(scenario())
    assert names.count(b"a") == names.count(b"b") == 10


def test_whoever_lost_its_clients_gets_the_next():
    async def scenario():
        async with scene() as here:
            shares = new_shares(2)
            connections = here.process(b"a", shares[0])
            first = await here.names(3)
            await here.leave()
            while connections:
                await asyncio.sleep(0.001)
            here.process(b"b", shares[1])
            return first, await here.names(4)

    first, later = asyncio.run(scenario())
    assert first == [b"a"] * 3
    assert later.count(b"a") == later.count(b"b") == 2


def test_what_another_process_does_not_take_is_taken():
    async def scenario():
        async with scene() as here:
            shares = new_shares(2)
            shares[1].set(0)  # it hangs
            here.process(b"a", shares[0])
            return await here.names(3)

    assert asyncio.run(scenario()) == [b"a"] * 3


def test_nothing_is_left_to_a_process_that_has_ended():
    shares = new_shares(2)
    shares[0].set(3)
    assert not shares[0].is_larger  # the other one has not begun
    shares[1].set(1)
    assert shares[0].is_larger
    assert not shares[1].is_larger
    shares[1].clear()
    assert not shares[0].is_larger


class FullOnce:
    """A socket that finds too many open files at the first connection."""

    def __init__(self, listener):
        self._listener = listener
        self._is_full = True

    def accept(self):
        if self._is_full:
            self._is_full = False
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listener.accept()

    def __getattr__(self, name):
        return getattr(self._listener, name)


def test_too_many_open_files_are_told_and_waited_for(caplog):
    async def scenario():
        async with scene() as here:
            here.process(b"a", new_shares(1)[0], FullOnce(here.listener.dup()))
            return await here.names(1)

    assert asyncio.run(scenario()) == [b"a"]
    assert caplog.messages == ["no connection can be accepted: Too many open files"]
