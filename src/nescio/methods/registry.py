"""The methods by name: ours, and those that other packages bring by entry points or by registering them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from nescio._registry import Registry, with_settings
from nescio.errors import InputError
from nescio.methods.base import Method

MethodClass = TypeVar("MethodClass", bound=type[Method])

# Names and settings as files of format 1 have them, and as the paper calls its first baseline.
_FORMER_NAMES = {"l2": "softmax"}
_FORMER_SETTINGS = {"ensemble": {"size": "num_members"}}


def _check(name: str, method: type[Method]) -> None:
    """Refuse what is no method that a model file could hold."""
    if not isinstance(method, type) or not issubclass(method, Method):
        raise InputError(f"the method {name!r} must be a subclass of Method, got {method!r}")
    if not dataclasses.is_dataclass(method):
        raise InputError(f"{method.__name__} must be a dataclass: put @dataclass(frozen=True) above it")
    if method.name != name:
        raise InputError(f"{method.__name__} calls itself {method.name!r}, but is registered as {name!r}")


METHODS: Registry[type[Method]] = Registry("method", "nescio.methods", check=_check, aliases=_FORMER_NAMES)
"""All methods by name, those of other packages included; iterating gives the names."""


def register_method(method: MethodClass) -> MethodClass:
    """Make a method known by its name: to model files, to the command line, to the service.

    Args:
        method: A frozen dataclass that extends `Method`.

    Returns:
        The same class, so that this can stand above it as a decorator.

    Raises:
        InputError: If it is no such class, or if another method has its name.

    Example:
        >>> from nescio.methods import EDL
        >>> register_method(EDL) is EDL
        True
    """
    # What is no method has no name; `register` says what it must be.
    METHODS.register(getattr(method, "name", repr(method)), method)
    return method


def make_method(name: str, **settings: Any) -> Method:
    """The method of a name.

    Args:
        name: One of the registered names; "l2" is another one for softmax.
        settings: Fields that are not to have their defaults.

    Returns:
        The method.

    Raises:
        InputError: If there is no such method, or a setting does not fit.

    Example:
        >>> make_method("softmax", weight_decay=0.001)
        Softmax(weight_decay=0.001)
    """
    method = METHODS.get(name)
    return with_settings(f"the method {method.name}", method, settings)


def method_to_dict(method: Method) -> dict[str, Any]:
    """A method as plain data, for a model file.

    Args:
        method: Any.

    Returns:
        Its name and its settings.

    Raises:
        InputError: If it is no dataclass, whose fields are its settings.

    Example:
        >>> from nescio.methods import Softmax
        >>> method_to_dict(Softmax())
        {'name': 'softmax', 'weight_decay': 0.0}
    """
    if not dataclasses.is_dataclass(method):
        name = type(method).__name__
        raise InputError(f"the method {name} must be a dataclass: write @dataclass(frozen=True) above it")
    settings: dict[str, Any] = dataclasses.asdict(method)
    return {"name": method.name, **settings}


def method_from_dict(data: Mapping[str, Any]) -> Method:
    """A method back from plain data.

    Args:
        data: What `method_to_dict` gave, now or before names were changed; settings may be left out.

    Returns:
        The method.

    Raises:
        InputError: If there is no such method, or a setting does not fit.

    Example:
        >>> method_from_dict({"name": "softmax", "weight_decay": 0.5})
        Softmax(weight_decay=0.5)
    """
    settings = dict(data)
    name = settings.pop("name", None)
    for former, now in _FORMER_SETTINGS.get(str(name), {}).items():
        if former in settings:
            settings[now] = settings.pop(former)
    return make_method(name, **settings)
