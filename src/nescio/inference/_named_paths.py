"""Model files by name, as commands take them: `model.safetensors`, a run folder, or `name=` before either."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from nescio.errors import InputError
from nescio.inference._model_file import model_path


def named_paths(texts: Iterable[str]) -> dict[str, Path]:
    """Files by name, from texts of the form PATH or NAME=PATH.

    Without a name it is that of the file without its ending, or that of the run folder. What has a slash
    before its first equals sign is a path: `./a=b.safetensors` has no name.
    """
    paths: dict[str, Path] = {}
    for text in texts:
        name, path = _parse(text)
        if name in paths:
            raise InputError(
                f"two models are named {name}: {paths[name]} and {path}; give them names, "
                f"as in first={paths[name]} second={path}"
            )
        paths[name] = path
    return paths


def has_name(text: str) -> bool:
    """Whether a text is NAME=PATH, and not a path alone."""
    name, equals, _ = text.partition("=")
    return bool(equals) and "/" not in name and os.sep not in name


def is_named_model(text: str) -> bool:
    """Whether a text is NAME=PATH, and not an input: a file, or a text with words and an equals sign."""
    if not has_name(text) or os.path.exists(text):
        return False
    path = text.partition("=")[2]
    return os.path.exists(path) or len(text.split()) == 1


def _parse(text: str) -> tuple[str, Path]:
    if has_name(text):
        name, _, rest = text.partition("=")
        if not name or not rest:
            raise InputError(f"a model must be PATH or NAME=PATH, got {text!r}")
        return name, model_path(rest)
    path = Path(text)
    if path.is_dir():
        return path.resolve().name, model_path(path)
    return path.stem, path
