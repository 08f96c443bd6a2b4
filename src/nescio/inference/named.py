"""Models by name: `name=path`, for commands that take several side by side."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from nescio.errors import InputError
from nescio.inference._model_file import model_path

_NAMED = re.compile(r"(?P<name>[^=/\\]+)=(?P<path>.+)", re.DOTALL)


class NamedModel(NamedTuple):
    """Where a model is, and what it is called.

    Args:
        name: As it was given, else the name of the file without its ending, or of the folder of a run.
        path: The model file.

    Example:
        >>> NamedModel("small", Path("runs/1/model.safetensors")).name
        'small'
    """

    name: str
    path: Path


def is_named(text: str) -> bool:
    """Whether a text is name=path, and not the path of a file that has such a name.

    Example:
        >>> is_named("small=runs/1"), is_named("runs/1")
        (True, False)
    """
    return _NAMED.fullmatch(text) is not None and not Path(text).exists()


def named_model(text: str | Path) -> NamedModel:
    """A model from name=path, or from a path alone.

    Args:
        text: The path of a model file or of the folder of a run, with or without a name.

    Raises:
        ModelFileError: If it is a folder without a model.

    Example:
        >>> named_model("small=other.safetensors")
        NamedModel(name='small', path=PosixPath('other.safetensors'))
        >>> named_model("runs/digits.safetensors").name
        'digits'
    """
    found = _NAMED.fullmatch(str(text))
    if found is not None and is_named(str(text)):
        return NamedModel(found["name"], model_path(found["path"]))
    path = Path(text)
    name = path.resolve().name if path.is_dir() else path.stem
    return NamedModel(name, model_path(path))


def named_models(texts: Iterable[str | Path]) -> list[NamedModel]:
    """Several models, each with a name of its own.

    Raises:
        InputError: If two have the same name.

    Example:
        >>> [model.name for model in named_models(["a=x.safetensors", "b=x.safetensors"])]
        ['a', 'b']
    """
    models: list[NamedModel] = []
    for text in texts:
        model = named_model(text)
        if any(model.name == other.name for other in models):
            raise InputError(
                f"two models are named {model.name}; give them names of their own: NAME={model.path}"
            )
        models.append(model)
    return models
