"""The service under load and under attack, on loopback: what is lost, and what it holds.

python -m benchmarks.serving_faults [COUNT] [--only PART ...]     # default: 30 restarts and 30 reloads
python -m benchmarks.serving_faults --only ray      # two replicas on a local cluster, one of them killed

Prints what each scenario came to, adds it to benchmarks/results/serving_faults.json, and ends with 1 where a
request that was accepted got no answer, where the server's memory did not stay level, or where /healthz took
longer than half a second. Attacks are bounded in count and in time.
"""

import argparse
import http.client
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.serving import SERVE, resident, store, workers_of
from nescio.serve._models import bundled_paths

CLIENTS = 4
MAX_GROWTH = 64 * 2**20  # bytes
MAX_HEALTH_SECONDS = 0.5
RESULTS = Path("benchmarks/results/serving_faults.json")
IMAGE = bytes(28 * 28)
RAW = {"content-type": "application/octet-stream"}
SHORT = "/v1/opinions"  # takes the shortcut past ASGI
LONG = "/v1/opinions?fields=best"


class Load:
    """Clients that ask all the time, half of them by connections that are kept; what they were told.

    Where a client could not connect, nothing was accepted: it tries again. retries: how often a request that
    got an error is sent again before it counts as lost.
    """

    def __init__(self, port: Callable[[], int], retries: int = 0) -> None:
        self.answered = 0
        self.retried = 0
        self.lost: list[str] = []
        self._port = port
        self._retries = retries
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._threads = []
        for number in range(CLIENTS):
            self._threads.append(threading.Thread(target=self._ask, args=(number % 2 == 0,)))

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, keeps: bool) -> None:
        connection: http.client.HTTPConnection | None = None
        tries = 0
        while not self._end.is_set():
            if connection is None:
                connection = _connected(self._port())
                continue
            outcome = _outcome(connection, SHORT if keeps else LONG)
            if outcome != "200" or not keeps or connection.sock is None:
                connection.close()
                connection = None
            with self._lock:
                if outcome == "200":
                    self.answered += 1
                    tries = 0
                elif tries < self._retries:
                    tries += 1
                    self.retried += 1
                    time.sleep(0.5)
                else:
                    self.lost.append(outcome)
        if connection is not None:
            connection.close()


def _connected(port: int) -> http.client.HTTPConnection | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.connect()
    except OSError:
        time.sleep(0.02)
        return None
    return connection


def _outcome(connection: http.client.HTTPConnection, path: str) -> str:
    try:
        connection.request("POST", path, IMAGE, RAW)
        response = connection.getresponse()
        response.read()
    except (OSError, http.client.HTTPException) as error:
        return repr(error)
    return str(response.status)


@contextmanager
def server(*words: str, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """`nescio serve` and its port, once it listens."""
    command = [*SERVE[:-1], str(port), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().split(" at ")[1].split()[0]
            yield process, int(address.rpartition(":")[2])
        finally:
            process.terminate()
            process.communicate(timeout=120)


def restarts(count: int, workers: int) -> bool:
    """Stop and start again on the same port, under load."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Load(lambda: port) as load:
        for _ in range(count):
            before = load.answered
            with server("--workers", str(workers), port=port):
                while load.answered < before + 20:
                    time.sleep(0.02)
    return _told(f"{count} restarts, {workers} worker(s)", load)


def reloads(count: int, workers: int) -> bool:
    """SIGHUP under load, with the file replaced each time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        contents = [one.read_bytes() for one in bundled_paths().values()]
        path.write_bytes(contents[0])
        with server(str(path), "--workers", str(workers)) as (process, port), Load(lambda: port) as load:
            assert process.stderr is not None
            while not load.answered:
                time.sleep(0.02)
            for number in range(count):
                path.write_bytes(contents[(number + 1) % 2])
                process.send_signal(signal.SIGHUP)
                while "were read again" not in process.stderr.readline():
                    pass
    return _told(f"{count} reloads, {workers} worker(s)", load)


def kills(count: int) -> bool:
    """One of two workers is killed: what it had accepted gets an error, and it comes back."""
    with server("--workers", "2") as (process, port), Load(lambda: port, retries=5) as load:
        while not load.answered or len(workers_of(process.pid)) < 2:
            time.sleep(0.05)
        for _ in range(count):
            killed = workers_of(process.pid)[0]
            os.kill(killed, signal.SIGKILL)
            while killed in workers_of(process.pid) or len(workers_of(process.pid)) < 2:
                time.sleep(0.05)
    return _told(f"{count} workers killed", load)


def ray_replica() -> bool:
    """One of two replicas on a local cluster is killed."""
    with server("--on", "ray", "--workers", "2") as (_, port), Load(lambda: port, retries=8) as load:
        while load.answered < 100:
            time.sleep(0.05)
        killed = _replicas()[0]
        os.kill(killed, signal.SIGKILL)
        while killed in _replicas() or len(_replicas()) < 2:
            time.sleep(0.2)
        before = load.answered
        while load.answered < before + 100:
            time.sleep(0.05)
    return _told("one of two replicas killed", load)


def _replicas() -> list[int]:
    command = ("pgrep", "-f", "ServeReplica:nescio")
    return [int(word) for word in subprocess.run(command, capture_output=True, text=True).stdout.split()]


def _told(what: str, load: Load) -> bool:
    lost = f", lost {len(load.lost)}: {load.lost[:3]}" if load.lost else ", none lost"
    print(f"{what:28s} {load.answered:7d} answered, {load.retried} sent again{lost}", flush=True)
    numbers = {"answered": load.answered, "sent_again": load.retried, "lost": len(load.lost)}
    store(RESULTS, {what: numbers})
    return not load.lost


def attacks() -> bool:
    """Headers and trailers without end, pipelines, answers that nobody reads, forms in odd charsets."""
    is_fine = True
    with server("--write-timeout", "5") as (process, port):
        # What a first large answer takes for good, the allocator's share of it, is no leak.
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(_LARGE_REQUEST)
            while client.recv(2**16):
                pass
        for name, attack in ATTACKS.items():
            before = resident(process.pid)
            with _health_watched(port) as seconds:
                most = attack(port, process.pid)
            after = resident(process.pid)
            slowest = max(seconds)
            is_level = after - before < MAX_GROWTH
            is_fine = is_fine and is_level and slowest < MAX_HEALTH_SECONDS
            sizes = {"before": before, "most": most, "after": after}
            store(RESULTS, {name: sizes | {"slowest_health_seconds": slowest}})
            mebibytes = [round(size / 2**20) for size in (before, most, after)]
            print(
                f"{name:28s} memory {mebibytes[0]} MiB, at most {mebibytes[1]}, then {mebibytes[2]}; "
                f"/healthz at most {slowest:.3f} s, median {statistics.median(seconds):.3f} s",
                flush=True,
            )
    return is_fine


@contextmanager
def _health_watched(port: int) -> Iterator[list[float]]:
    """Seconds that /healthz took, once the block has ended; asked by a process that does nothing else."""
    seconds: list[float] = []
    command = [sys.executable, "-m", "benchmarks.serving_faults", "--watch-health", str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        watch.stdout.readline()  # it has asked for the first time
        yield seconds
        said, _ = watch.communicate()
        seconds += json.loads(said)


def watch_health(port: int) -> None:
    """Ask every 50 ms until stdin is closed, then print how long each took."""
    seconds = []
    end = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        end.set()

    threading.Thread(target=wait_for_end).start()
    while not end.is_set():
        start = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b'{"status":"ok"}'
        connection.close()
        seconds.append(time.perf_counter() - start)
        if len(seconds) == 1:
            print("watching", flush=True)
        end.wait(0.05)
    print(json.dumps(seconds))


def _flood(
    begin: bytes, piece: bytes, connections: int = 6, seconds: float = 5.0
) -> Callable[[int, int], int]:
    """Send one thing, then the same without end, from several connections that never read."""

    def attack(port: int, process: int) -> int:
        most = resident(process)
        clients = []
        for _ in range(connections):
            client = socket.create_connection(("127.0.0.1", port))
            client.sendall(begin)
            client.setblocking(False)
            clients.append(client)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for client in clients:
                try:
                    client.send(piece)
                except BlockingIOError:
                    time.sleep(0.001)
                except OSError:
                    pass  # it was cut off
            most = max(most, resident(process))
        for client in clients:
            client.close()
        return most

    return attack


def _unread(port: int, process: int) -> int:
    """40 clients ask for large answers and read nothing."""
    request = _LARGE_REQUEST.replace(b"connection: close\r\n", b"")
    most = resident(process)
    clients = []
    for _ in range(40):
        client = socket.create_connection(("127.0.0.1", port))
        client.sendall(request)
        clients.append(client)
        most = max(most, resident(process))
    end = time.monotonic() + 15
    while time.monotonic() < end:
        most = max(most, resident(process))
        time.sleep(0.05)
    for client in clients:
        client.close()
    time.sleep(1)
    return most


def _forms(port: int, process: int) -> int:
    """A megabyte in a field, in charsets that take long."""
    for charset in ("punycode", "idna", "utf-7", "rot13", "utf-8"):
        field = (
            b'--x\r\nContent-Disposition: form-data; name="models"\r\n\r\n' + b"a-" * 2**19 + b"\r\n--x--\r\n"
        )
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        content_type = f"multipart/form-data; boundary=x; charset={charset}"
        connection.request("POST", "/v1/opinions", field, {"content-type": content_type})
        assert connection.getresponse().status in (400, 413, 422)
        connection.close()
    return resident(process)


_IMAGES = np.zeros((5000, 28, 28), np.uint8).tobytes()
_LARGE_REQUEST = (
    b"POST /v1/opinions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/octet-stream\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(_IMAGES)
) + _IMAGES
_HEAD = b"POST /v1/opinions HTTP/1.1\r\nhost: localhost\r\n"
ATTACKS: dict[str, Callable[[int, int], int]] = {
    "headers without end": _flood(_HEAD + b"x: ", bytes(b"x" * 2**16)),
    "trailers without end": _flood(
        _HEAD + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nx: ", bytes(b"x" * 2**16)
    ),
    "pipelines that never read": _flood(b"", b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n" * 1000),
    "answers that nobody reads": _unread,
    "forms in odd charsets": _forms,
}


def main() -> None:
    """Run the scenarios; end with 1 where one of them went wrong."""
    parts: dict[str, Callable[[int], bool]] = {
        "attacks": lambda _: attacks(),
        "reloads": lambda count: reloads(count, 1),
        "reloads of two": lambda count: reloads(count, 2),
        "kills": lambda count: kills(max(1, count // 6)),
        "restarts": lambda count: restarts(count, 1),
        "restarts of two": lambda count: restarts(count, 2),
        "ray": lambda _: ray_replica(),
    }
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int, nargs="?", default=30)
    parser.add_argument(
        "--only", nargs="+", choices=[*parts], default=[name for name in parts if name != "ray"]
    )
    parser.add_argument("--watch-health", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.watch_health is not None:
        watch_health(given.watch_health)
        return
    outcomes = [parts[name](given.count) for name in given.only]
    sys.exit(0 if all(outcomes) else 1)


if __name__ == "__main__":
    main()
