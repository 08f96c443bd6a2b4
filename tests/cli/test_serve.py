"""`nescio serve`: what the command line makes of its words."""

import sys
from pathlib import Path

import pytest

from nescio.cli import app
from nescio.serve import Limits, _server
from nescio.serve._access import Access
from nescio.serve._process import ServerSettings
from nescio.serve.limits import MEBIBYTE


@pytest.fixture
def run(monkeypatch, capsys):
    """The command, with what the server would be started with instead of a server."""

    def call(*words):
        started = {}

        def run_server(paths, settings, **address):
            started.update(address, paths=paths, settings=settings, limits=settings.limits)

        monkeypatch.setattr(_server, "run_server", run_server)
        monkeypatch.setattr(sys, "argv", ["nescio", "serve", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            app.main()
        return ended.value.code, started, capsys.readouterr().err

    return call


def test_the_usual_limits_and_the_bundled_pair(run):
    code, started, _ = run()
    assert code == 0
    assert started["limits"] == Limits()
    assert started["paths"] == {}
    assert (started["host"], started["port"]) == ("127.0.0.1", 8000)
    access = Access(token=None, allowed_hosts=("localhost", "127.0.0.1", "::1"))
    assert started["settings"] == ServerSettings(access=access)


def test_models_under_names(run):
    _, started, _ = run("old=a/model.safetensors", "new=b/model.safetensors", "c.safetensors")
    assert started["paths"] == {
        "old": Path("a/model.safetensors"),
        "new": Path("b/model.safetensors"),
        "c": Path("c.safetensors"),
    }


def test_every_limit_can_be_set(run):
    words = (
        "--max-body 1 --max-total-body 2 --max-total-answer 11 --max-inputs 3 --max-pixels 4 --max-values 5 "
        "--max-decoding 6 --max-queue 7 --batch-size 8 --read-timeout 0.5 --answer-timeout 9 "
        "--write-timeout 12 --max-connections 10"
    )
    _, started, _ = run(*words.split())
    assert started["limits"] == Limits(
        max_body=MEBIBYTE,
        max_total_body=2 * MEBIBYTE,
        max_total_answer=11 * MEBIBYTE,
        max_inputs=3,
        max_pixels=4,
        max_values=5,
        max_decoding=6,
        max_queue=7,
        batch_size=8,
        read_timeout=0.5,
        answer_timeout=9.0,
        write_timeout=12.0,
        max_connections=10,
    )


def test_where_and_by_what_it_is_computed(run):
    _, started, _ = run()
    assert (started["on"], started["max_replicas"], started["settings"].runtime) == ("here", None, "torch")
    _, started, _ = run("--on", "ray", "--workers", 2, "--max-replicas", 4, "--runtime", "auto")
    assert (started["on"], started["max_replicas"], started["settings"].runtime) == ("ray", 4, "auto")


def test_who_may_ask_and_what_is_logged(run, tmp_path, monkeypatch):
    (tmp_path / "token").write_text("secret\n")
    words = (
        f"--workers 2 --watch --token-file {tmp_path / 'token'} --allowed-host Example.org "
        "--allowed-host [::1] --root-path /models/ --access-log --log-format json"
    )
    _, started, _ = run(*words.split())
    assert started["settings"] == ServerSettings(
        access=Access("secret", ("example.org", "::1"), "/models"),
        workers=2,
        access_log=True,
        log_format="json",
        watches=True,
    )
    assert "127.0.0.2" in run("--host", "127.0.0.2")[1]["settings"].access.allowed_hosts
    monkeypatch.setenv("NESCIO_TOKEN", "other ")
    access = run("--host", "0.0.0.0")[1]["settings"].access
    assert access == Access("other", (), "")
    assert run("--allowed-host", "*")[1]["settings"].access.allowed_hosts == ()
    monkeypatch.setenv("NESCIO_TOKEN", " ")
    code, started, err = run()
    assert (code, started) == (1, {})
    assert "NESCIO_TOKEN must be a token, got an empty one" in err


@pytest.mark.parametrize(
    ("words", "expected_code", "expected"),
    [
        (("--max-inputs", 0), 2, "--max-inputs"),
        (("--read-timeout", 0), 2, "--read-timeout"),
        (("--batch-size", "many"), 2, "--batch-size"),
        (("--max-body", 300), 1, "error: --max-body must be at most --max-total-body, 256, got 300"),
        (
            ("--token-file", "no-such-file"),
            1,
            "error: --token-file must be a file with a token, got no-such-f",
        ),
        (
            ("--token-file", "/dev/null"),
            1,
            "--token-file must be a file with a token, got /dev/null, which is e",
        ),
        (("--allowed-host", "a/b"), 1, "as clients send them, without ports, got 'a/b'"),
        (("--root-path", "models"), 1, "error: --root-path must be like /models"),
        (("--log-format", "xml"), 2, "--log-format"),
        (("--runtime", "jax"), 2, "--runtime"),
        (("--on", "mars"), 2, "--on"),
        (("--max-replicas", 4), 1, "error: --max-replicas is for --on ray"),
        (("--on", "ray", "--workers", 3, "--max-replicas", 2), 1, "must be at least --workers, 3, got 2"),
        (("=a.safetensors",), 1, "error: a model must be PATH or NAME=PATH, got '=a.safetensors'"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_own_name(run, words, expected_code, expected):
    code, started, err = run(*words)
    assert code == expected_code
    assert started == {}
    assert expected in err
