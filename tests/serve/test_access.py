"""Who may ask: by token, host and path."""

import re

import pytest
from tests.serve.helpers import pair, pictures, reason

from nescio import InputError
from nescio.serve._access import Access, host_names
from nescio.serve.app import create_app

ONE = {"json": {"inputs": pictures(1).tolist()}}


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401),
        ("Bearer secret", 200),
        ("bearer secret", 200),
        ("Bearer secret2", 401),
        ("Bearer secre", 401),
        ("Bearer ", 401),
        ("Basic secret", 401),
        ("secret", 401),
        ("Bearer \xff", 401),
    ],
)
def test_a_token_is_asked_for(ask, header, status):
    app = create_app(pair(), token="secret")
    headers = {} if header is None else {"authorization": header.encode("latin-1")}
    response = ask("POST", "/v1/opinions", app=app, headers=headers, **ONE)
    assert response.status_code == status
    if status == 401:
        assert reason(response) == "send the token of the service, as Authorization: Bearer TOKEN"
        assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/docs", "/openapi.json", "/nothing"])
def test_a_token_is_asked_for_everywhere_but_for_health_and_the_page(ask, path):
    app = create_app(pair(), token="secret")
    assert ask("GET", path, app=app).status_code == 401
    for open_path in ("/healthz", "/readyz", "/", "/main.js"):
        assert ask("GET", open_path, app=app).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("here", 200),
        ("HERE:8000", 200),
        ("here.", 200),
        ("[::1]:8000", 200),
        ("[::1]", 200),
        ("127.0.0.1:1", 200),
        ("elsewhere", 421),
        ("here.elsewhere", 421),
        ("", 421),
    ],
)
def test_other_hosts_are_refused(ask, host, status):
    app = create_app(pair(), allowed_hosts=["here", "::1", "127.0.0.1"])
    response = ask("GET", "/v1/models", app=app, headers={"host": host})
    assert response.status_code == status
    if status == 421:
        assert "--allowed-host" in reason(response)
    assert ask("GET", "/healthz", app=app, headers={"host": host}).status_code == 200


@pytest.mark.parametrize("hosts", [("here", "elsewhere"), ("elsewhere", "here")])
def test_of_two_hosts_both_must_be_allowed(ask, hosts):
    app = create_app(pair(), allowed_hosts=["HERE."])
    headers = [("host", host) for host in hosts]
    assert ask("GET", "/v1/models", app=app, headers=headers).status_code == 421
    assert ask("GET", "/v1/models", app=app, headers={"host": "here"}).status_code == 200


@pytest.mark.parametrize("prefix", ["", "/models"], ids=["taken away", "left"])
def test_behind_a_proxy_with_a_path(ask, prefix):
    """Whether the proxy takes its path away or not."""
    app = create_app(pair(), root_path="/models")
    assert ask("POST", f"{prefix}/v1/opinions", app=app, **ONE).status_code == 200
    assert ask("GET", f"{prefix}/main.js", app=app).status_code == 200
    assert "<title>" in ask("GET", f"{prefix}/", app=app).text
    assert ask("GET", f"{prefix}/nothing", app=app).status_code == 404
    assert ask("GET", f"{prefix}/openapi.json", app=app).json()["servers"] == [{"url": "/models"}]
    metrics = ask("GET", f"{prefix}/metrics", app=app).text
    assert 'nescio_requests_total{path="/v1/opinions",status="200"} 1.0' in metrics


@pytest.mark.parametrize(("root_path", "location"), [("/models", "./models/"), ("/team/a:b", "./a:b/")])
def test_the_root_path_without_a_slash(ask, root_path, location):
    """What the page names lies below it; the address is given without a host."""
    app = create_app(pair(), root_path=root_path, token="secret")
    for method in ("GET", "HEAD"):
        answer = ask(method, root_path, app=app)
        assert (answer.status_code, answer.headers["location"]) == (307, location)
        assert str(answer.url.join(location)) == f"http://here{root_path}/"
    assert "<title>" in ask("GET", f"{root_path}/", app=app).text
    assert ask("POST", root_path, app=app).status_code == 405


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"token": ""}, "token must be printable ASCII characters, one or more"),
        ({"token": "é"}, "token must be printable ASCII"),
        ({"token": "a\nb"}, "token must be printable ASCII"),
        ({"allowed_hosts": ("http://here",)}, "as clients send them, without ports, got 'http://here'"),
        ({"allowed_hosts": ("here:80",)}, "as clients send them, without ports, got 'here:80'"),
        ({"allowed_hosts": ("*.here",)}, "as clients send them, without ports, got '*.here'"),
        ({"allowed_hosts": ("a b",)}, "as clients send them, without ports, got 'a b'"),
        ({"allowed_hosts": ("bücher",)}, "as clients send them, without ports, got 'bücher'"),
        ({"allowed_hosts": ("fe80::1%eth0",)}, "as clients send them, without ports, got 'fe80::1%eth0'"),
        ({"allowed_hosts": ("",)}, "as clients send them, without ports, got ''"),
        ({"root_path": "models"}, "root_path must be like /models"),
        ({"root_path": "/"}, "root_path must be like /models"),
        ({"root_path": "/a/../b"}, "root_path must be like /models"),
        ({"root_path": "//there"}, "root_path must be like /models"),
        ({"root_path": "/a?b"}, "root_path must be like /models"),
    ],
)
def test_settings_that_make_no_sense(settings, words):
    with pytest.raises(InputError, match=re.escape(words)):
        Access(**settings)


def test_hosts_are_compared_as_clients_send_them():
    assert host_names(["HERE.", "[::1]", "0:0:0:0:0:0:0:1"]) == ("here", "::1", "::1")
    with pytest.raises(InputError, match="must be a list of hosts, got the text 'here'"):
        create_app(pair(), allowed_hosts="here")


@pytest.mark.parametrize("path", ["/models", "/user/a@b.org/proxy/8000", "/a.b/.c"])
def test_root_paths_of_many_kinds(path):
    assert Access(root_path=path).root_path == path
