"""What griffe must be told of our docstrings: a section "Example:" holds code and what it gives."""

from __future__ import annotations

import re
from typing import Any

import griffe

HEADING = re.compile(r"^Example:$", flags=re.MULTILINE)


class ExampleSections(griffe.Extension):
    """Call them "Examples:", as griffe does; else the code is taken for Markdown."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rename the section in one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = HEADING.sub("Examples:", obj.docstring.value)
