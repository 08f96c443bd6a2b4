"""What users touch says what it takes, gives and refuses, and shows it by an example that works."""

import ast
import doctest
import importlib
import inspect
import re
from enum import Enum
from pathlib import Path

import pytest

import nescio
from nescio.opinions import MEASURES

# Whose __all__ is held to it. A room joins by being listed.
ROOMS = [
    "nescio.data",
    "nescio.encoders",
    "nescio.functional",
    "nescio.inference",
    "nescio.integrations.hub",
    "nescio.integrations.lightning",
    "nescio.integrations.transformers",
    "nescio.methods",
    "nescio.metrics",
    "nescio.metrics.streaming",
    "nescio.opinions",
    "nescio.plots",
    "nescio.posthoc",
    "nescio.reports",
    "nescio.serve",
    "nescio.training",
    "nescio.training.loggers",
]
# Of modules without a list.
OTHERS = [
    "nescio.methods.conversion.from_softmax",
    "nescio.integrations.sklearn.EvidentialClassifier",
    "nescio.losses.EvidentialLoss",
    "nescio.losses.IEDLLoss",
    "nescio.losses.REDLoss",
    "nescio.posthoc.scores.KNNScore",
    "nescio.posthoc.scores.MahalanobisScore",
    "nescio.posthoc.scores.ViMScore",
    "nescio.posthoc.scores.energy_score",
    "nescio.posthoc.scores.entropy_score",
    "nescio.posthoc.scores.max_logit_score",
    "nescio.posthoc.scores.max_probability_score",
    "nescio.testing.check_encoder",
    "nescio.testing.check_method",
]
PACKAGE = Path(nescio.__file__).parent
PROMPT = ">>> "


def public_objects():
    found = {}
    for room in ROOMS:
        module = importlib.import_module(room)
        for name in module.__all__:
            found[f"{room}.{name}"] = getattr(module, name)
    for path in OTHERS:
        module, _, name = path.rpartition(".")
        found[path] = getattr(importlib.import_module(module), name)
    return {
        name: thing for name, thing in found.items() if inspect.isclass(thing) or inspect.isroutine(thing)
    }


PUBLIC = public_objects()


@pytest.fixture(autouse=True)
def _measures_as_they_were(monkeypatch):
    """An example may register a measure."""
    monkeypatch.setattr(MEASURES, "_items", dict(MEASURES._items))


def examples_by_module():
    """How many docstrings with an example there are in each module of the package."""
    counts = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE.parent).with_suffix("")
        parts = [part for part in place.parts if part != "__init__"]
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                continue
            if PROMPT in (ast.get_docstring(node) or ""):
                module = ".".join(parts)
                counts[module] = counts.get(module, 0) + 1
    return counts


EXAMPLES = examples_by_module()


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_work(name):
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    tests = [test for test in finder.find(importlib.import_module(name), name) if test.examples]
    assert len(tests) == EXAMPLES[name]
    for test in tests:
        output = []
        runner.run(test, out=output.append)
        assert not output, "".join(output)


def test_all_that_the_package_gives_is_held_to_it():
    """Errors aside, which nobody calls."""
    held = set(PUBLIC.values())
    for name in nescio.__all__:
        thing = getattr(nescio, name)
        is_error = inspect.isclass(thing) and issubclass(thing, Exception)
        if not is_error and not inspect.ismodule(thing):
            assert thing in held, name


def own_docstring(thing):
    """Not the one that dataclasses or a base class would give."""
    text = thing.__doc__ or ""
    if inspect.isclass(thing) and text.startswith(f"{thing.__name__}("):
        return ""
    return text


@pytest.mark.parametrize("name", PUBLIC)
def test_docstrings_are_whole(name):
    thing = PUBLIC[name]
    text = own_docstring(thing)
    summary = text.strip().partition("\n")[0]
    assert summary.endswith((".", ":")), f"{name} must begin with one sentence, got {summary!r}"
    assert "Example:" in text, f"{name} must have an example"
    assert PROMPT in text.partition("Example:")[2], f"{name} must have an example that can be run"
    parameters = [each for each in inspect.signature(thing).parameters if each not in ("args", "kwargs")]
    if inspect.isclass(thing) and issubclass(thing, Enum):
        parameters = []  # nobody calls it
    is_protocol = getattr(thing, "_is_protocol", False)
    if parameters and not is_protocol:
        assert "Args:" in text, f"{name} must say what it takes: {', '.join(parameters)}"
        for parameter in parameters:
            assert f"    {parameter}: " in text, f"{name} must say what {parameter} is"
    if inspect.isroutine(thing) and inspect.signature(thing).return_annotation not in (None, "None"):
        assert "Returns:" in text, f"{name} must say what it gives"


def test_every_room_has_a_list_of_what_is_public():
    for room in ROOMS:
        module = importlib.import_module(room)
        assert sorted(module.__all__) == sorted(set(module.__all__))
        for name in module.__all__:
            assert hasattr(module, name), f"{room} has no {name}"


FRAGMENT = re.compile(r"\s+[\w, ]+: (Of|As|With|By|From|Called) ")


def test_what_an_argument_is_can_be_read_without_its_name():
    fragments = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef | ast.FunctionDef):
                continue
            text = ast.get_docstring(node, clean=False) or ""
            for line in text.splitlines():
                if FRAGMENT.match(line):
                    fragments.append(f"{path.name}, {node.name}: {line.strip()}")
    assert not fragments, "say 'Name of the set', not 'name: Of the set':\n" + "\n".join(fragments)
