"""A replica of Ray Serve, without a cluster: `python -m benchmarks.serving_faults ray` has one."""

import asyncio
import json

import pytest
from starlette.requests import Request
from tests.serve.helpers import ONE, PICTURE, untrained

from nescio import InputError
from nescio.methods import EDL
from nescio.serve._access import Access
from nescio.serve._files import ModelFiles
from nescio.serve._process import ServerSettings
from nescio.serve._ray_serve import Replica, _free_port, _redeploy


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "small.safetensors"
    untrained(PICTURE, EDL()).save(path)
    return {"small": (".safetensors", path.read_bytes())}


def asked(replica, method, path, body=b"", headers=()):
    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": list(headers)}
    return asyncio.run(replica(Request(scope, receive)))


def test_a_replica_answers_as_the_service_does(contents):
    replica = Replica(contents, ServerSettings())
    headers = [(b"content-type", b"application/json")]
    response = asked(replica, "POST", "/v1/opinions", ONE, headers)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert int(response.headers["content-length"]) == len(response.body)
    (result,) = json.loads(response.body)["results"]
    assert result["model"] == "small"
    assert len(result["opinions"][0]["belief"]) == 3
    missing = asked(replica, "GET", "/nothing")
    assert missing.status_code == 404
    assert json.loads(missing.body) == {"error": "not found"}
    assert missing.headers["x-content-type-options"] == "nosniff"


def test_a_replica_asks_for_the_token(contents):
    replica = Replica(contents, ServerSettings(access=Access(token="secret")))
    assert asked(replica, "GET", "/v1/models").status_code == 401
    assert (
        asked(replica, "GET", "/v1/models", headers=[(b"authorization", b"Bearer secret")]).status_code == 200
    )
    assert asked(replica, "GET", "/healthz").status_code == 200


def test_a_free_port():
    assert 1024 <= _free_port("127.0.0.1") < 65536
    with pytest.raises(InputError, match=r"--host must be an address of this machine, got '192\.0\.2\.1'"):
        _free_port("192.0.2.1")


def test_a_file_that_is_gone_is_logged_once_and_looked_for(tmp_path, caplog):
    path = tmp_path / "small.safetensors"
    path.touch()
    files = ModelFiles({"small": path})
    path.unlink()
    assert [files.have_changed() for _ in range(2)] == [False, True]
    _redeploy(files, ServerSettings(), 1)
    assert f"there is no file {path}" in caplog.text
    assert [files.have_changed() for _ in range(2)] == [False, False]
    path.touch()
    assert [files.have_changed() for _ in range(2)] == [False, True]
