"""Several processes, and their parent: what they serve, and when they end."""

import multiprocessing
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from tests.processes import is_running
from tests.serve.helpers import PICTURE, Asking, get, post, process, untrained, untrained_otherwise

from nescio.methods import EDL
from nescio.serve import _supervisor
from nescio.serve._metrics import SHARED_DIR
from nescio.serve._process import ServerSettings

OLD = untrained(PICTURE, EDL())
NEW = untrained_otherwise(PICTURE, EDL())


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "small.safetensors"
    OLD.save(path)
    return path


@pytest.fixture(scope="module")
def temporary(tmp_path_factory):
    """Where the server of the tests has its temporary files, and nobody else."""
    return tmp_path_factory.mktemp("temporary")


@pytest.fixture(scope="module")
def running(path, files, temporary):
    environment = {"TMPDIR": str(temporary)}
    with process(path, files[1], "--workers", 2, environment=environment) as (server, port):
        yield server, port


def uncertainty(port):
    return post(port)[1]["results"][0]["opinions"][0]["uncertainty"]


def workers_of(process):
    text = subprocess.run(
        ["pgrep", "-P", str(process.pid), "-f", "spawn_main"], capture_output=True, text=True
    )
    return sorted(map(int, text.stdout.split()))


def wait_until(condition, seconds=90):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_several_processes_count_together(running):
    _, port = running
    text = ""

    def counted():
        nonlocal text
        text = get(port, "/metrics")
        _, _, rest = text.partition('requests_total{path="/v1/opinions",status="200"} ')
        return float(rest.split()[0]) if rest else 0.0

    before = counted()
    assert [post(port)[0] for _ in range(6)] == [200] * 6
    # A process counts once its answer is out: the last one may just be doing so.
    wait_until(lambda: counted() == before + 6)
    assert "nescio_waiting 0.0" in text


def test_a_worker_that_is_killed_comes_back_and_serves_what_the_others_do(running, path):
    server, port = running
    old = uncertainty(port)
    first, second = wait_for_two(server)
    NEW.save(path)  # nobody has asked for it to be read
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: len(workers_of(server)) == 2 and first not in workers_of(server))
    assert second in workers_of(server)
    os.kill(second, signal.SIGSTOP)  # so that the new one answers
    try:
        assert uncertainty(port) == pytest.approx(old, rel=1e-4)
    finally:
        os.kill(second, signal.SIGCONT)


def wait_for_two(server):
    wait_until(lambda: len(workers_of(server)) == 2)
    return workers_of(server)


def test_a_reload_reaches_all_and_loses_no_request(running, path):
    server, port = running
    before = wait_for_two(server)
    old = uncertainty(port)
    NEW.save(path)
    with Asking(port, keeps_connection=True) as kept, Asking(port, keeps_connection=False) as fresh:
        server.send_signal(signal.SIGHUP)
        wait_until(lambda: kept.uncertainties and kept.uncertainties[-1] != pytest.approx(old, rel=1e-3))
        count = len(fresh.uncertainties)
        wait_until(lambda: len(fresh.uncertainties) > count + 20)
    assert kept.errors == fresh.errors == []
    new = uncertainty(port)
    assert new != pytest.approx(old, rel=1e-3)
    assert fresh.uncertainties[-10:] == pytest.approx([new] * 10, rel=1e-4)
    assert workers_of(server) == before  # the same processes


def test_a_file_that_is_no_model_is_not_served(running, path):
    server, port = running
    before = uncertainty(port)
    path.write_bytes(b"no model")
    server.send_signal(signal.SIGHUP)
    line = ""
    while "were not read again" not in line:
        line = server.stderr.readline()
        assert line
    assert f"those from before are served on: {path} is damaged" in line
    assert uncertainty(port) == pytest.approx(before, rel=1e-4)


def test_workers_leave_the_port_when_their_parent_is_killed(running, temporary):
    """The last test: it ends the server."""
    server, port = running
    workers = wait_for_two(server)
    (shared,) = temporary.glob("nescio-*")  # where they count together
    server.kill()
    server.wait()
    wait_until(lambda: not any(is_running(one) for one in workers), 60)
    wait_until(lambda: not shared.exists(), 20)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


class Standing:
    """In place of a worker: has started, and ends when it is told to."""

    def __init__(self, _):
        self.channel, self._theirs = multiprocessing.Pipe()
        self.sentinel, self._end = multiprocessing.Pipe()
        self.process = self
        self.exitcode = None
        self.has_started = True

    @property
    def has_ended(self):
        return self.exitcode is not None

    def terminate(self):
        self.exitcode = 0
        self._end.send(None)

    def join(self, _):
        assert self.has_ended


def test_told_to_stop_the_parent_ends_its_workers_and_leaves_nothing(files, monkeypatch):
    workers = []

    def start(arguments):
        workers.append(Standing(arguments))
        if len(workers) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return workers[-1]

    monkeypatch.setattr(_supervisor, "_Worker", start)
    monkeypatch.setenv(SHARED_DIR, "")  # what is set there is taken back at the end
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    listener = socket.create_server(("127.0.0.1", 0))
    ready = []
    paths = {file.stem: file for file in files}
    try:
        _supervisor.Supervisor(
            paths, listener, ServerSettings(workers=2), lambda: ready.append(listener.fileno())
        ).run()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert len(ready) == 1
    assert listener.fileno() == -1
    assert not Path(os.environ[SHARED_DIR]).exists()
