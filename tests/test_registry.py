import importlib.metadata
from dataclasses import dataclass

import pytest

from nescio import _registry
from nescio._registry import Registry, require_defined, with_settings
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


def test_other_names_are_found_but_not_listed():
    registry = Registry("shape", "nescio.tests", aliases={"circle": "round"})
    registry.register("round", 1)
    assert registry.get("circle") == 1
    assert "circle" in registry
    assert (list(registry), len(registry)) == (["round"], 1)


@pytest.mark.parametrize("name", [None, ["round"], 3])
def test_what_is_no_name_is_not_found(name):
    registry = Registry("shape", "nescio.tests")
    registry.register("round", 1)
    assert name not in registry
    with pytest.raises(InputError, match="shape must be one of round, got"):
        registry.get(name)


def test_what_is_not_of_the_kind_is_refused():
    def check(name, item):
        if item < 0:
            raise InputError(f"{name} is below zero")

    registry = Registry("shape", "nescio.tests", check=check)
    with pytest.raises(InputError, match="square is below zero"):
        registry.register("square", -1)
    assert "square" not in registry


@dataclass
class Point:
    x: int
    y: int = 0


def test_a_dataclass_with_settings():
    assert with_settings("the point", Point, {"x": 3}) == Point(3)
    with pytest.raises(InputError, match="the point has no setting 'z'; it has x, y"):
        with_settings("the point", Point, {"x": 3, "z": 4})
    with pytest.raises(InputError, match=r"settings do not fit the point: .*'x'"):
        with_settings("the point", Point, {})


def test_what_a_class_must_define():
    class Base:
        size: int

        def area(self): ...

        @classmethod
        def made(cls): ...

    class Whole(Base):
        size = 3

        def area(self):
            return 9

        @classmethod
        def made(cls):
            return cls()

    required = {"size": "a number", "area": "its area", "made": "a new one"}
    require_defined(Whole, Base, required)
    with pytest.raises(InputError, match=r"Half is no Base yet: it must define area \(its area\), made"):
        require_defined(type("Half", (Base,), {"size": 1}), Base, required)


def test_an_alias_can_not_be_taken():
    registry = Registry("shape", "nescio.tests", aliases={"circle": "round"})
    registry.register("round", 1)
    with pytest.raises(InputError, match="'circle' stands for the shape 'round'; choose another name"):
        registry.register("circle", 2)


def test_what_is_ours_stands_first_whenever_others_come():
    registry = Registry("shape", "nescio.tests", lambda: registry.register("round", 1))
    registry.register("square", 2)
    assert list(registry) == ["round", "square"]
    with pytest.raises(InputError, match="another shape called 'round' already"):
        registry.register("round", 3)
    assert registry.get("round") == 1
