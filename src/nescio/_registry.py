"""Registry: things of one kind by name, ours and those that other packages bring.

Other packages add theirs by an entry point of the registry's group, or by calling `register`. Entry points
are loaded when a name is first asked for, so that an import stays quick.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from nescio.errors import InputError, NescioWarning

Item = TypeVar("Item")


class Registry(Generic[Item]):
    """Named things of one kind.

    Args:
        kind: What they are, in the singular, for messages: "method".
        group: The group of entry points by which other packages bring theirs: "nescio.methods".
        load_ours: Registers what comes with nescio; called once, before the first look-up.

    Example:
        >>> shapes = Registry[type]("shape", "nescio.shapes")
        >>> shapes.register("list", list)
        >>> shapes.get("list")
        <class 'list'>
    """

    def __init__(self, kind: str, group: str, load_ours: Callable[[], None] | None = None) -> None:
        self.kind = kind
        self.group = group
        self._items: dict[str, Item] = {}
        self._load_ours = load_ours
        self._is_loaded = False

    def register(self, name: str, item: Item) -> None:
        """Add a thing under a name.

        Raises:
            InputError: If another thing has that name already. The same thing may be registered again.
        """
        present = self._items.get(name)
        if present is not None and present is not item:
            raise InputError(f"there is another {self.kind} called {name!r} already: {present!r}")
        self._items[name] = item

    def get(self, name: str) -> Item:
        """The thing of this name.

        Raises:
            InputError: If there is none; the message names those that there are.
        """
        self._load()
        if name not in self._items:
            raise InputError(f"{self.kind} must be one of {', '.join(self)}, got {name!r}")
        return self._items[name]

    def __contains__(self, name: object) -> bool:
        self._load()
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(list(self._items))

    def _load(self) -> None:
        if self._is_loaded:
            return
        self._is_loaded = True
        if self._load_ours is not None:
            self._load_ours()
        for entry_point in entry_points(group=self.group):
            self._load_entry_point(entry_point)

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
