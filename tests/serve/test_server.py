"""The server in processes of its own: bad clients, signals, addresses."""

import asyncio
import concurrent.futures
import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
import uvicorn
from tests.serve.conftest import START
from tests.serve.helpers import PICTURE, pictures, untrained

from nescio.cli import app
from nescio.methods import EDL, Softmax
from nescio.serve import _connection
from nescio.serve._connection import Connection

ONE = json.dumps({"inputs": pictures(1).tolist()}).encode()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    untrained(PICTURE, EDL()).save(folder / "small.safetensors")
    untrained(PICTURE, Softmax()).save(folder / "soft.safetensors")
    return [folder / "small.safetensors", folder / "soft.safetensors"]


@contextmanager
def process(*words):
    """`nescio serve` and its port, once it listens."""
    command = [*START, *map(str, words), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            told = server.stdout.readline()
            assert told.startswith("Serving small, soft at http://127.0.0.1:"), server.stderr.read()
            yield server, urlsplit(told.split(" at ")[1].split()[0]).port
        finally:
            server.kill()


@pytest.fixture(scope="module")
def port(files):
    with process(*files) as (server, port):
        yield port
        server.terminate()
        _, errors = server.communicate(timeout=60)
        assert "Traceback" not in errors


def post(port, body=ONE, path="/v1/opinions"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", path, body, {"content-type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def head(length):
    lines = ("POST /v1/opinions HTTP/1.1", "host: here", "content-type: application/json", length, "", "")
    return "\r\n".join(lines).encode()


def test_it_answers(port):
    status, answer = post(port)
    assert status == 200
    assert [result["model"] for result in answer["results"]] == ["small", "soft"]


def test_a_gigabyte_is_refused_by_its_announcement(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(head("content-length: 1000000000") + bytes(1000))
        assert client.recv(65536).startswith(b"HTTP/1.1 413 ")
    assert post(port)[0] == 200


def test_a_gigabyte_in_pieces_is_cut_off(port):
    piece = b"100000\r\n" + bytes(2**20) + b"\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(head("transfer-encoding: chunked"))
        sent = pieces_until_cut_off(client, piece, most=1000)
    assert 32 <= sent < 100
    assert post(port)[0] == 200


def pieces_until_cut_off(client, piece, most):
    for sent in range(most):
        try:
            client.sendall(piece)
        except OSError:
            return sent
    return most


def test_a_slow_client_holds_up_nobody(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as slow:
        slow.sendall(head(f"content-length: {len(ONE)}") + ONE[:100])
        assert post(port)[0] == 200
        slow.sendall(ONE[100:])
        assert slow.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_clients_that_go_in_the_middle_leave_it_well(port):
    for end in (10, 200, len(ONE)):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(head(f"content-length: {len(ONE)}") + ONE[:end])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(b"nonsense\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 400 ")
    assert post(port)[0] == 200


def test_many_at_once_are_answered_and_share_passes(port):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: post(port), range(64)))
    # Another size of batch may round otherwise.
    alone = post(port)[1]["results"]
    for status, answer in answers:
        assert status == 200
        for result, expected in zip(answer["results"], alone, strict=True):
            (one,), (other,) = result["opinions"], expected["opinions"]
            assert one["probabilities"] == pytest.approx(other["probabilities"], rel=1e-4)
    text = get(port, "/metrics")
    passes, inputs = (
        float(text.split(f'nescio_batch_size_{what}{{model="small"}} ')[1].split()[0])
        for what in ("count", "sum")
    )
    assert inputs >= 64
    assert passes < inputs


def test_what_was_accepted_is_finished_when_it_ends_under_load(files):
    many = json.dumps({"inputs": pictures(4000).tolist()}).encode()
    with process(*files) as (server, port), concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert post(port)[0] == 200
        large = [pool.submit(post, port, many) for _ in range(2)]
        # Accepted is what has been read: the counter of waiting inputs says so.
        while "nescio_waiting 0.0" in get(port, "/metrics") and not all(task.done() for task in large):
            time.sleep(0.002)
        unfinished = sum(not task.done() for task in large)
        server.send_signal(signal.SIGTERM)
        answers = [task.exception() or task.result() for task in large]
        _, errors = server.communicate(timeout=60)
    assert unfinished >= 1
    assert errors == ""
    assert server.returncode == 0
    answered = [answer for answer in answers if isinstance(answer, tuple)]
    assert answered
    for status, answer in answered:
        assert status == 200
        assert [len(result["opinions"]) for result in answer["results"]] == [4000, 4000]
    # One that was still being sent may be cut off before its answer, never in the middle of it.
    assert all(isinstance(one, tuple | OSError | http.client.RemoteDisconnected) for one in answers)


def test_several_processes_count_together(files):
    with process(*files, "--workers", 2) as (server, port):
        assert [post(port)[0] for _ in range(6)] == [200] * 6
        # A process counts once its answer is out: the last one may just be doing so.
        end, counted = time.monotonic() + 30, 0.0
        while counted != 6 and time.monotonic() < end:
            text = get(port, "/metrics")
            counted = float(text.split('requests_total{path="/v1/opinions",status="200"} ')[1].split()[0])
        assert counted == 6
        assert "nescio_waiting 0.0" in text
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
    assert server.returncode == 0


def test_connections_that_never_ask_are_closed():
    """With a short patience, in this process: half a header, one that trickles, and one that asks."""

    async def scenario():
        served = uvicorn.Server(uvicorn.Config(answer, http=Connection, lifespan="off", log_level="warning"))
        listener = socket.create_server(("127.0.0.1", 0))
        serving = asyncio.create_task(served.serve([listener]))
        while not served.started:
            await asyncio.sleep(0.01)
        streams = [await asyncio.open_connection(*listener.getsockname()) for _ in range(3)]
        (silent, _), (trickled, trickle), (asked, asking) = streams
        trickle.write(b"GET / HTTP/1.1\r\nx: ")
        asking.write(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
        for _ in range(200):
            if trickled.at_eof():
                break
            trickle.write(b"x")
            await asyncio.sleep(0.02)
        ends = [await asyncio.wait_for(one.read(), 20) for one in (silent, trickled, asked)]
        for _, writer in streams:
            writer.close()
        served.should_exit = True
        await serving
        return ends

    async def answer(scope, receive, send):
        await asyncio.sleep(0.5)  # more than the patience: a request that has begun is not cut off
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_connection, "IDLE_SECONDS", 0.2)
        silent, trickled, asked = asyncio.run(scenario())
    assert (silent, trickled) == (b"", b"")
    assert asked.startswith(b"HTTP/1.1 200 ")
    assert asked.endswith(b"ok")


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*words):
        monkeypatch.setattr(sys, "argv", ["nescio", "serve", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            app.main()
        return ended.value.code, capsys.readouterr().err

    return call


def test_a_port_in_use_is_said(run, files):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, err = run(files[0], "--port", port)
    assert code == 1
    assert err == (
        f"error: can't listen at 127.0.0.1, port {port}: Address already in use; choose another with --port\n"
    )


def test_other_bad_starts_are_one_line(run, files, tmp_path):
    (tmp_path / "small.safetensors").write_bytes(files[0].read_bytes())
    (tmp_path / "bad.safetensors").write_bytes(b"no model")
    cases = [
        ((tmp_path / "none.safetensors",), f"error: there is no file {tmp_path / 'none.safetensors'}\n"),
        ((files[0], tmp_path / "small.safetensors"), "error: two models are named small: "),
        ((tmp_path / "bad.safetensors",), f"error: {tmp_path / 'bad.safetensors'} is damaged"),
        ((files[0], "--host", "no.such.host.invalid"), "error: --host must be an address of this machine"),
        ((files[0], "--host", "192.0.2.1", "--port", 0), "error: can't listen at 192.0.2.1"),
    ]
    for words, expected in cases:
        code, err = run(*words)
        assert code == 1
        assert err.startswith(expected)
        assert len(err.splitlines()) == 1
