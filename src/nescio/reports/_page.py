"""Pages: the templates of all reports, with one look for light and dark, wide and narrow, and print."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from nescio.errors import MissingExtraError
from nescio.plots import DARK_PALETTE, PALETTE

if TYPE_CHECKING:
    from jinja2 import Template

EXTRAS = ("matplotlib", "jinja2")


def require_extras() -> None:
    """Refuse to start where a report could not be written, before the training and not after it.

    Raises:
        MissingExtraError: If matplotlib or jinja2 is not installed.
    """
    for package in EXTRAS:
        try:
            import_module(package)
        except ImportError as error:
            raise MissingExtraError("demo", package) from error


def page_template(path: Path, filters: Mapping[str, Callable[..., str]] | None = None) -> Template:
    """A template of a report; one that ends with .html.j2 escapes what it is given.

    Args:
        path: The template. It may include `look.css.j2`, the style that all reports share.
        filters: Functions that the template may put values through, by name.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([path.parent, Path(__file__).parent]),
        autoescape=path.name.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["palette"] = PALETTE
    environment.globals["dark_palette"] = DARK_PALETTE
    environment.filters.update(filters or {})
    return environment.get_template(path.name)
