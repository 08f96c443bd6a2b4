"""The server in processes of its own: bad clients, signals, addresses."""

import concurrent.futures
import http.client
import json
import signal
import socket
import sys
import time

import pytest
from tests.serve.helpers import ONE, get, pictures, post, process

from nescio.cli import app

MAX_INPUTS = 4000


@pytest.fixture(scope="module")
def runs(files, tmp_path_factory):
    """Two runs side by side under names, as `nescio serve` takes them."""
    folder = tmp_path_factory.mktemp("runs")
    words = []
    for name, file in zip(("small", "soft"), files, strict=True):
        run = folder / f"run-{name}"
        run.mkdir()
        (run / "model.safetensors").write_bytes(file.read_bytes())
        words.append(f"{name}={run}")
    return words


@pytest.fixture(scope="module")
def port(runs):
    with process(*runs, "--max-inputs", MAX_INPUTS) as (_, port):
        yield port


def head(length):
    lines = ("POST /v1/opinions HTTP/1.1", "host: localhost", "content-type: application/json", length)
    return "\r\n".join((*lines, "", "")).encode()


def test_it_answers_by_the_names_of_the_runs_and_within_its_limits(port):
    status, answer = post(port)
    assert status == 200
    assert [result["model"] for result in answer["results"]] == ["small", "soft"]
    many = json.dumps({"inputs": [[0]] * (MAX_INPUTS + 1)}).encode()
    assert post(port, many) == (422, {"error": "there must be 1 to 4,000 inputs, got 4,001"})


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
        ((files[0], "--host", "192.0.2.1", "--port", 0), "error: --host must be an address of this m"),
    ]
    for words, expected in cases:
        code, err = run(*words)
        assert code == 1
        assert err.startswith(expected)
        assert len(err.splitlines()) == 1


@pytest.fixture
def to_be_ended(runs):
    """A server of its own, and its port."""
    with process(*runs, "--max-inputs", MAX_INPUTS) as (server, port):
        yield server, port


def test_what_was_accepted_is_finished_when_it_ends_under_load(to_be_ended):
    server, port = to_be_ended
    many = json.dumps({"inputs": pictures(MAX_INPUTS).tolist()}).encode()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        unfinished = 0
        while unfinished == 0:  # on a busy machine all may be answered before we look
            large = [pool.submit(post, port, many) for _ in range(2)]
            # Accepted is what has been read: the counter of waiting inputs says so.
            while "nescio_waiting 0.0" in get(port, "/metrics") and not all(task.done() for task in large):
                time.sleep(0.002)
            unfinished = sum(not task.done() for task in large)
        server.send_signal(signal.SIGTERM)
        answers = [task.exception() or task.result() for task in large]
        _, errors = server.communicate(timeout=60)
    assert "Traceback" not in errors
    assert server.returncode == 0
    answered = [answer for answer in answers if isinstance(answer, tuple)]
    assert answered
    for status, answer in answered:
        assert status == 200
        assert [len(result["opinions"]) for result in answer["results"]] == [MAX_INPUTS, MAX_INPUTS]
    # One that was still being sent may be cut off before its answer, never in the middle of it.
    assert all(isinstance(one, tuple | OSError | http.client.RemoteDisconnected) for one in answers)
