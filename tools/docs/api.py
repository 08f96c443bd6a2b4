"""The API reference: which names are public, and the pages on which each stands.

A page in docs/api has a line `<!-- api: nescio.opinions -->`; the names of that room are put there, and
mkdocstrings writes what their docstrings say. `nescio.integrations.*` stands for all modules of a room. The
sources are read and not run, so that no extra has to be installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import griffe

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "api"
MARK = re.compile(r"^<!-- api: ([\w.*]+) -->$", flags=re.MULTILINE)
TABLE = "<!-- api table -->"
# What is not called from Python: the command line, the demo, and the studies (`nescio study`).
NOT_FOR_IMPORT = {"cli", "demo", "studies"}
# Modules within rooms that users import by their own names, as what they need is not always installed.
WITHIN_ROOMS = ("nescio.integrations.*", "nescio.metrics.streaming", "nescio.training.loggers")

PublicName = griffe.Object | griffe.Alias


@lru_cache
def package() -> griffe.Module:
    """The package as its sources have it."""
    loader = griffe.GriffeLoader(search_paths=[ROOT / "src"])
    found = loader.load("nescio")
    loader.resolve_aliases(implicit=False, external=False)
    assert isinstance(found, griffe.Module)
    return found


def expand(markdown: str) -> str:
    """A page of the reference with the names of its rooms in the place of its marks."""
    text = MARK.sub(lambda found: _entries(found[1]), markdown)
    return text.replace(TABLE, _table())


def missing_names() -> list[str]:
    """Say which public names no page has, and which have no docstring."""
    listed: set[str] = set()
    for page in sorted(PAGES.glob("*.md")):
        for room in MARK.findall(page.read_text(encoding="utf-8")):
            for module in _modules(room):
                listed.update(name.canonical_path for name in names_of(module))
    found = []
    for module in _rooms():
        for name in names_of(module):
            if name.canonical_path not in listed:
                found.append(f"{module.path}.{name.name} is public and on no page of docs/api")
            if not name.has_docstring:
                found.append(f"{module.path}.{name.name} is public and has no docstring")
    return found


def names_of(module: griffe.Module) -> list[PublicName]:
    """What a module lists as public, or where it has no list, what it defines; classes first."""
    names: list[PublicName] = []
    for name, member in module.members.items():
        if isinstance(member, griffe.Module) and name in member.members:
            member = member.members[name]  # `detection` of `metrics/detection.py`: what an import gives
        if module.exports is None:
            is_public = not name.startswith("_") and not member.is_alias and not member.is_module
            is_public = is_public and (member.is_class or member.is_function)
        else:
            is_public = name in _strings(module.exports) and not member.is_module
        if is_public:
            names.append(member)
    return sorted(names, key=lambda member: (not member.is_class, not member.is_function, member.name))


def _strings(exports: object) -> set[str]:
    assert isinstance(exports, list)
    return {str(name) for name in exports}


def _rooms() -> Iterator[griffe.Module]:
    yield package()
    for name, member in package().members.items():
        if isinstance(member, griffe.Module) and not name.startswith("_") and name not in NOT_FOR_IMPORT:
            yield member
    for within in WITHIN_ROOMS:
        yield from _modules(within)


def _modules(room: str) -> list[griffe.Module]:
    """The module of that name, or all public ones below it."""
    below = room.endswith(".*")
    parent = package()
    for part in room.removesuffix(".*").split(".")[1:]:
        parent = parent.modules[part]
    if not below:
        return [parent]
    return [module for name, module in sorted(parent.modules.items()) if not name.startswith("_")]


def _entries(room: str) -> str:
    lines = []
    for module in _modules(room):
        for name in names_of(module):
            path = f"{module.path}.{name.name}"
            if package()[path.removeprefix("nescio.")].is_module:
                path = name.canonical_path
            lines.append(f"::: {path}\n")
    return "\n".join(lines)


def _table() -> str:
    """What `import nescio` gives, each with its first sentence."""
    lines = ["| name | what it is |", "|---|---|"]
    for name in names_of(package()):
        docstring = name.docstring
        assert docstring is not None
        sentence = docstring.value.strip().partition("\n")[0].replace("|", "\\|")
        lines.append(f"| [`nescio.{name.name}`][{name.canonical_path}] | {sentence} |")
    return "\n".join(lines)
