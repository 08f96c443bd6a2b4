"""From the body of a request to inputs that models take. Nothing here touches the disk."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from nescio.data._pictures import TooManyPixelsError, read_header, read_picture
from nescio.data._user_data import LARGEST_NUMBER
from nescio.errors import DataError
from nescio.serve.errors import Refusal
from nescio.serve.limits import Limits

Shape = tuple[int, ...]
Names = tuple[str, ...] | None
Values = NDArray[np.uint8] | NDArray[np.float32]
MOST_LISTS = 2_000_000  # an empty one takes two bytes of a body and thirty times that once it is read
NOT_NUMBERS = "inputs must be arrays of numbers, all of one shape"
TOO_LARGE = "inputs must be finite numbers that float32 can hold"


@dataclass(frozen=True, eq=False)
class Numbers:
    """Inputs as numbers (N, ...), and the names of the models asked; None for all."""

    values: Values
    models: Names

    @property
    def count(self) -> int:
        """N."""
        return len(self.values)

    def shaped(self, shape: Shape) -> Values:
        """As inputs (N, ...) of a model that takes this shape."""
        values = self.values
        if shape[0] == 1 and len(shape) == values.ndim == 3:
            values = values[:, None]  # (N, H, W) -> (N, 1, H, W)
        if values.shape[1:] != shape:
            raise Refusal(422, f"inputs must be {_sizes(shape)}, got {_sizes(self.values.shape[1:])}")
        if len(shape) == 3 and values.dtype != np.uint8 and (values.min() < 0 or values.max() > 255):
            raise Refusal(422, f"pixels must be 0 to 255, got {values.min():g} to {values.max():g}")
        return values


@dataclass(frozen=True, eq=False)
class Pictures:
    """Inputs as the bytes of picture files, and the names of the models asked; None for all."""

    files: tuple[bytes, ...]
    models: Names

    @property
    def count(self) -> int:
        """N."""
        return len(self.files)

    def shaped(self, shape: Shape) -> Values:
        """As inputs (N, C, H, W) of a model that takes this shape."""
        if len(shape) != 3:
            raise Refusal(422, "a model takes rows of numbers, not pictures: send JSON, or name other models")
        try:
            pictures = [read_picture(file, shape[0], (shape[1], shape[2])).numpy() for file in self.files]
        except DataError as error:
            raise Refusal(422, _one_line(error)) from error
        return np.stack(pictures)


def read_json(body: bytes, limits: Limits) -> Numbers:
    """{"inputs": [...], "models": [...]}, models optional."""
    if len(body) > MOST_LISTS and body.count(b"[") + body.count(b"{") > MOST_LISTS:
        raise Refusal(413, f"the body has too many lists; at most {MOST_LISTS:,}")
    try:
        content = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Refusal(400, f"the body is not JSON: {_one_line(error)}") from error
    if not isinstance(content, dict) or "inputs" not in content or content.keys() - {"inputs", "models"}:
        raise Refusal(422, 'the body must be {"inputs": [...]}, with "models": [...] if not all are asked')
    inputs, names = content["inputs"], content.get("models", ())
    if not isinstance(inputs, list):
        raise Refusal(422, "inputs must be a list")
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise Refusal(422, "models must be a list of names")
    if "models" in content and not names:
        raise Refusal(422, "models must name one or more, or be left out for all")
    _require_count(len(inputs), limits)
    shape, flat = _flattened(inputs)
    # Of the letters of true and false, these two are in no word that a body needs.
    values = None if b"r" in body or b"f" in body else _as_pixels(flat)
    return Numbers((_as_values(flat) if values is None else values).reshape(shape), tuple(names) or None)


def _as_pixels(flat: list[Any]) -> NDArray[np.uint8] | None:
    """Whole numbers 0 to 255, the usual case, several times as fast; None for all else but booleans."""
    try:
        return np.frombuffer(bytearray(flat), np.uint8)
    except (TypeError, ValueError):
        return None


def _as_values(flat: list[Any]) -> NDArray[np.float32]:
    # Before numpy looks: it would take strings and null as well, and room for the longest for each of them.
    if not set(map(type, flat)) <= {int, float}:
        raise Refusal(422, NOT_NUMBERS)
    try:
        values = np.array(flat, np.float64)
    except OverflowError as error:
        raise Refusal(422, TOO_LARGE) from error
    if not (np.abs(values) <= LARGEST_NUMBER).all():
        raise Refusal(422, TOO_LARGE)
    return values.astype(np.float32)


def _flattened(inputs: list[Any]) -> tuple[Shape, list[Any]]:
    """Of lists in lists: the shape, and what is in the innermost, one after another."""
    shape, level = [len(inputs)], inputs
    while level and type(level[0]) is list:
        if set(map(type, level)) != {list} or len(set(map(len, level))) != 1:
            raise Refusal(422, NOT_NUMBERS)
        shape.append(len(level[0]))
        level = list(chain.from_iterable(level))
    return tuple(shape), level


class _InMemory(MultiPartParser):
    spool_max_size = 2**62  # never: a body within its limit stays where it is


async def read_form(content_type: str, body: bytes, limits: Limits) -> Pictures:
    """multipart/form-data: `files`, one or many pictures, and `models`, which may be repeated."""

    async def chunks() -> AsyncGenerator[bytes, None]:
        yield body

    headers = Headers({"content-type": content_type})
    try:
        form = await _InMemory(headers, chunks(), max_files=limits.inputs, max_fields=limits.inputs).parse()
    except MultiPartException as error:
        if error.message.startswith("Too many"):
            raise Refusal(422, f"there must be 1 to {limits.inputs:,} inputs, got more") from error
        raise Refusal(400, f"the form can't be read: {_one_line(error.message)}") from error
    except (LookupError, ValueError) as error:  # a charset that is none, or none for text
        raise Refusal(400, "the form can't be read: say charset=utf-8, or nothing") from error
    try:
        return _pictures_of(form, limits)
    finally:
        await form.close()


def _pictures_of(form: FormData, limits: Limits) -> Pictures:
    if set(form) - {"files", "models"}:
        raise Refusal(422, "the form has the fields files and models, no others")
    files, names = form.getlist("files"), form.getlist("models")
    pictures = tuple(file.file.read() for file in files if isinstance(file, UploadFile))
    models = tuple(name for name in names if isinstance(name, str))
    if len(pictures) < len(files):
        raise Refusal(422, "files must be picture files, with a file name")
    if len(models) < len(names):
        raise Refusal(422, "models must be names")
    _require_count(len(pictures), limits)
    return Pictures(pictures, models or None)


def require_pixels(pictures: Pictures, limits: Limits) -> None:
    """Few enough pixels in all, by what the headers say: none is decoded for it."""
    total = 0
    for file in pictures.files:
        try:
            height, width = read_header(file).size
        except TooManyPixelsError as error:
            raise Refusal(413, _one_line(error)) from error
        except DataError as error:
            raise Refusal(422, _one_line(error)) from error
        total += height * width
        if total > limits.pixels:
            raise Refusal(413, f"the pictures have too many pixels; at most {limits.pixels:,} in all")


def _require_count(count: int, limits: Limits) -> None:
    if not 1 <= count <= limits.inputs:
        raise Refusal(422, f"there must be 1 to {limits.inputs:,} inputs, got {count:,}")


def _sizes(shape: Shape) -> str:
    return " x ".join(map(str, shape)) or "one number"


def _one_line(error: object) -> str:
    return " ".join(str(error).split())
