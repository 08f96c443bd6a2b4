"""Registry: things of one kind by name, ours and those that other packages bring.

Other packages add theirs by an entry point of the registry's group, or by calling `register`. Entry points
are loaded when a name is first asked for, so that an import stays quick.
"""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from nescio.errors import InputError, NescioWarning

Item = TypeVar("Item")


class Registry(Generic[Item]):
    """Named things of one kind.

    Args:
        kind: What they are, in the singular, for messages: "method".
        group: The group of entry points by which other packages bring theirs: "nescio.methods".
        load_ours: Registers what comes with nescio; called once, before the first look-up.
        check: Function that is called with the name and the thing before it is registered; it raises an
            InputError for a thing that is not of this kind.
        aliases: Other names, and the names that they stand for. They are found, but not listed.

    Example:
        >>> shapes = Registry[type]("shape", "nescio.shapes", aliases={"row": "list"})
        >>> shapes.register("list", list)
        >>> shapes.get("row")
        <class 'list'>
        >>> list(shapes)
        ['list']
    """

    def __init__(
        self,
        kind: str,
        group: str,
        load_ours: Callable[[], None] | None = None,
        *,
        check: Callable[[str, Item], None] | None = None,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = kind
        self.group = group
        self._items: dict[str, Item] = {}
        self._load_ours = load_ours
        self._check = check
        self._aliases = dict(aliases or {})
        self._is_ours_loaded = False
        self._is_loaded = False

    def register(self, name: str, item: Item) -> None:
        """Add a thing under a name.

        Args:
            name: The name that users give it.
            item: The thing. The same thing may be registered again.

        Raises:
            InputError: If another thing has that name already, or if the thing is not of this kind.
        """
        self._load_what_is_ours()  # what comes with nescio stands first and keeps its names
        self._add(name, item)

    def _add(self, name: str, item: Item) -> None:
        if self._check is not None:
            self._check(name, item)
        if name in self._aliases:
            meant = self._aliases[name]
            raise InputError(f"{name!r} stands for the {self.kind} {meant!r}; choose another name")
        present = self._items.get(name)
        if present is not None and present is not item:
            raise InputError(f"there is another {self.kind} called {name!r} already: {present!r}")
        self._items[name] = item

    def get(self, name: str) -> Item:
        """The thing of this name.

        Args:
            name: A name that was registered, or an alias.

        Returns:
            What was registered under it.

        Raises:
            InputError: If there is none; the message names those that there are.
        """
        if name not in self:
            raise InputError(f"{self.kind} must be one of {', '.join(self)}, got {name!r}")
        return self._items[self._aliases.get(name, name)]

    def __contains__(self, name: object) -> bool:
        self._load()
        if not isinstance(name, str):
            return False
        return self._aliases.get(name, name) in self._items

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(list(self._items))

    def __len__(self) -> int:
        self._load()
        return len(self._items)

    def _load(self) -> None:
        if self._is_loaded:
            return
        self._is_loaded = True
        self._load_what_is_ours()
        for entry_point in entry_points(group=self.group):
            self._load_entry_point(entry_point)

    def _load_what_is_ours(self) -> None:
        if self._is_ours_loaded:
            return
        # Set before: what is loaded registers itself, which comes here again.
        self._is_ours_loaded = True
        if self._load_ours is not None:
            self._load_ours()

    def _load_entry_point(self, entry_point: EntryPoint) -> None:
        # A package that is broken must not take away what works without it.
        try:
            self.register(entry_point.name, entry_point.load())
        except Exception as error:  # noqa: BLE001 - another package's code: anything may come
            warnings.warn(
                f"the {self.kind} {entry_point.name!r} of {entry_point.value} can't be used: {error}",
                NescioWarning,
                stacklevel=4,
            )


def with_settings(what: str, kind: Callable[..., Item], settings: Mapping[str, Any]) -> Item:
    """A dataclass from settings that a user or a file gave.

    Args:
        what: What it is, for messages: "the method edl".
        kind: The dataclass.
        settings: Fields by name.

    Returns:
        The object.

    Raises:
        InputError: If it has no such field, or one is missing or does not fit.
    """
    known = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for name in settings:
        if name not in known:
            raise InputError(f"{what} has no setting {name!r}; it has {', '.join(known) or 'none'}")
    try:
        return kind(**settings)
    except TypeError as error:
        raise InputError(f"settings do not fit {what}: {error}") from error


def require_defined(new: type, base: type, required: Mapping[str, str]) -> None:
    """Refuse a class, when it is defined, that lacks what its base leaves to it.

    Args:
        new: The class.
        base: The class of ours that it extends.
        required: Names that the class must define, each with its meaning for the message.

    Raises:
        InputError: If one of them is still the base's own, or missing.
    """
    missing = []
    for name, meaning in required.items():
        defined = inspect.getattr_static(new, name, None)
        if defined is inspect.getattr_static(base, name, None):
            missing.append(f"{name} ({meaning})")
    if missing:
        raise InputError(f"{new.__name__} is no {base.__name__} yet: it must define {', '.join(missing)}")
