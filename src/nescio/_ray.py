"""Ray: started in one way, by all who spread work over processes and machines."""

from __future__ import annotations

import logging
from typing import Any

from nescio.errors import InputError, MissingExtraError

_PLACES = ("here", "ray")


def require_place(on: str) -> None:
    """Refuse a place to work that is neither this process nor a Ray cluster."""
    if on not in _PLACES:
        raise InputError(f"on must be one of {', '.join(_PLACES)}, got {on!r}")


def start_ray() -> Any:
    """The module `ray`, connected: to what the process has started already, or to a cluster of its own.

    Raises:
        MissingExtraError: If Ray is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("cluster", "ray") from error
    if not ray.is_initialized():
        ray.init(log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    return ray
