import sys
from types import SimpleNamespace

import pytest

from nescio._ray import start_ray
from nescio.errors import MissingExtraError


def fake(is_initialized):
    started = []
    ray = SimpleNamespace(is_initialized=lambda: is_initialized, init=lambda **given: started.append(given))
    return ray, started


@pytest.mark.parametrize("is_initialized", [False, True])
def test_it_is_started_once(monkeypatch, is_initialized):
    ray, started = fake(is_initialized)
    monkeypatch.setitem(sys.modules, "ray", ray)
    assert start_ray() is ray
    assert len(started) == (0 if is_initialized else 1)
    assert all(given["include_dashboard"] is False for given in started)


def test_it_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"ray is not installed.*nescio\[cluster\]"):
        start_ray()
