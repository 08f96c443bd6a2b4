import importlib.metadata

import pytest

from nescio import _registry
from nescio._registry import Registry
from nescio.errors import InputError, NescioWarning


def point(name, value):
    return importlib.metadata.EntryPoint(name, value, "nescio.tests")


def test_what_is_registered_is_found():
    registry = Registry("shape", "nescio.tests")
    registry.register("round", 1)
    registry.register("round", 1)
    assert registry.get("round") == 1
    assert list(registry) == ["round"]
    assert "round" in registry
    assert "square" not in registry


def test_a_name_is_taken_once():
    registry = Registry("shape", "nescio.tests")
    registry.register("round", "a")
    with pytest.raises(InputError, match="another shape called 'round' already"):
        registry.register("round", "b")


def test_an_unknown_name_is_answered_with_those_there_are():
    registry = Registry("shape", "nescio.tests", lambda: registry.register("round", 1))
    with pytest.raises(InputError, match="shape must be one of round, got 'square'"):
        registry.get("square")


def test_entry_points_are_loaded_once_and_a_broken_one_takes_nothing_away(monkeypatch):
    asked = []

    def entry_points(group):
        asked.append(group)
        return [point("broken", "nowhere.to.be:found"), point("whole", "json:loads")]

    monkeypatch.setattr(_registry, "entry_points", entry_points)
    registry = Registry("shape", "nescio.tests")
    with pytest.warns(NescioWarning, match="the shape 'broken' of nowhere.to.be:found can't be used"):
        assert registry.get("whole")("[1]") == [1]
    assert list(registry) == ["whole"]
    assert asked == ["nescio.tests"]
