"""The files of a model of transformers, from a folder or from the Hugging Face hub."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nescio._fetch.downloads import first_line
from nescio.errors import FetchError, InputError, MissingExtraError

HF_PREFIX = "hf:"
IMAGE_SIDE = 224  # where no file says another
HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


def image_processor(source: str) -> dict[str, Any]:
    """What says how images are brought to the model.

    Raises:
        InputError: If there is no such file.
    """
    content = read_file(source, "preprocessor_config.json")
    if content is not None:
        return read_object(content, f"preprocessor_config.json of {source}")
    content = read_file(source, "processor_config.json")
    if content is not None:
        found = read_object(content, f"processor_config.json of {source}").get("image_processor")
        if isinstance(found, dict):
            return found
    raise InputError(
        f"{HF_PREFIX}{source} has no preprocessor_config.json, which says how images are scaled for the model"
    )


def image_size(processor: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[int, int]:
    """Height and width that the model likes."""
    for size in (processor.get("crop_size"), processor.get("size"), config.get("image_size")):
        if isinstance(size, int):
            return size, size
        if isinstance(size, list) and len(size) == 2:
            return int(size[0]), int(size[1])
        if isinstance(size, dict) and {"height", "width"} <= size.keys():
            return int(size["height"]), int(size["width"])
        if isinstance(size, dict) and "shortest_edge" in size:
            return int(size["shortest_edge"]), int(size["shortest_edge"])
    return IMAGE_SIDE, IMAGE_SIDE


def channel_scaling(processor: Mapping[str, Any], count: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """What is subtracted from raw 8-bit channels, and what they are divided by then."""
    factor = processor.get("rescale_factor", 1 / 255) if processor.get("do_rescale", True) else 1.0
    mean = [0.0] * count
    deviation = [1.0] * count
    if processor.get("do_normalize", True):
        mean = processor.get("image_mean") or mean
        deviation = processor.get("image_std") or deviation
    return tuple(value / factor for value in mean), tuple(value / factor for value in deviation)


def read_object(content: str, what: str) -> dict[str, Any]:
    """A JSON object; `what` it is, for the message of the InputError where it is none."""
    try:
        found = json.loads(content)
    except ValueError as error:
        raise InputError(f"{what} must be JSON: {error}") from error
    if not isinstance(found, dict):
        raise InputError(f"{what} must be a JSON object, got {type(found).__name__}")
    return found


def read_file(source: str, name: str) -> str | None:
    """A text file of the folder or of the hub; None where there is no such file."""
    folder = Path(source)
    if folder.is_dir():
        path = folder / name
        return path.read_text(encoding="utf-8") if path.is_file() else None
    if not HUB_ID.fullmatch(source):
        raise InputError(
            f"hf: must be followed by a folder or by a name on the hub; there is no folder {source}"
        )
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError
    except ImportError as error:
        raise MissingExtraError("hf", "huggingface_hub") from error
    with explaining(source):
        try:
            return Path(hf_hub_download(source, name)).read_text(encoding="utf-8")
        except LocalEntryNotFoundError:  # the hub is out of reach, which says nothing about the file
            raise
        except EntryNotFoundError:
            return None


@contextmanager
def explaining(source: str) -> Iterator[None]:
    """Say in one line why a model can't be had; the library's errors are of many kinds."""
    try:
        yield
    except Exception as error:
        reason = first_line(str(error)) or type(error).__name__
        raise FetchError(
            f"{HF_PREFIX}{source} can't be had: {reason}; if the hub is out of reach, "
            "put its files (config.json, model.safetensors and others) into a folder and name it: hf:FOLDER"
        ) from error
