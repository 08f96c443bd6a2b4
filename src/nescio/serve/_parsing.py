"""From the body of a request to its inputs, not yet brought to a model. Nothing here touches the disk."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from nescio._kinds import InputKind
from nescio.data import Input, Place, Row, Text, open_sources
from nescio.data._columns import LARGEST_NUMBER
from nescio.data._table_files import SUFFIXES as TABLES
from nescio.data._table_files import cells_of_object, parquet_size
from nescio.data.sources._opening import is_single_picture
from nescio.errors import DataError, MissingExtraError
from nescio.serve._batching import Values
from nescio.serve._errors import RequestError
from nescio.serve._forms import parse_parts
from nescio.serve.limits import Limits

Shape = tuple[int, ...]
MAX_LISTS = 2_000_000  # an empty one takes two bytes of a body and thirty times that once it is parsed
_NOT_NUMBERS = "inputs must be arrays of numbers, all of one shape"
_TOO_LARGE = "inputs must be numbers that float32 can hold"
_MIXED = "inputs must all be texts, all be objects by the names of columns, or all be arrays"
_BODY = 'the body must be {"inputs": [...]}, with "models": [...] if not all are asked'


@dataclass(frozen=True, eq=False)
class ArrayInputs:
    """Inputs as numbers (N, ...). model_names: of the models that are asked, None for all."""

    values: Values
    model_names: tuple[str, ...] | None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(str(number) for number in range(1, len(self.values) + 1))


@dataclass(frozen=True, eq=False)
class SentFiles:
    """Files as they came, not opened yet. model_names: of the models that are asked, None for all."""

    places: tuple[Place, ...]
    model_names: tuple[str, ...] | None

    @property
    def are_pictures(self) -> bool:
        """Whether each is one picture: then there is nothing to read before they are decoded."""
        return all(is_single_picture(place) for place in self.places)

    def open(self, limits: Limits) -> FileInputs:
        """What is in the files, read by the same sources as on the command line."""
        for place in self.places:
            _require_room(place, limits)
        source = open_sources(self.places)
        _require_count(len(source), limits)
        return FileInputs(tuple(source.read(range(len(source)))), self.model_names)


@dataclass(frozen=True, eq=False)
class FileInputs:
    """Inputs from files, or texts and rows that came as JSON.

    model_names: of the models that are asked, None for all. kind: what came as JSON, None for files.
    """

    inputs: tuple[Input, ...]
    model_names: tuple[str, ...] | None
    kind: InputKind | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.inputs)


def _require_room(place: Place, limits: Limits) -> None:
    """Refuse a file that takes far more memory once it is read than it does in the body."""
    content = place.read_bytes()
    if place.suffix == ".npz":
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                unpacked = sum(member.file_size for member in archive.infolist())
        except zipfile.BadZipFile:
            return  # it gets an error of its own
        most = 8 * limits.max_values  # bytes of so many numbers
        if unpacked > most:
            raise RequestError(413, f"{place.short_name} is too large unpacked; at most {most:,} bytes")
    elif place.suffix == ".parquet":
        _require_parquet_room(place, limits)
    elif place.suffix in TABLES:
        num_cells = sum(content.count(separator) for separator in (b"\n", b"\r", b",", b";", b"\t"))
        if num_cells > MAX_LISTS:
            raise RequestError(413, f"{place.short_name} has too many cells; at most {MAX_LISTS:,}")


def _require_parquet_room(place: Place, limits: Limits) -> None:
    """By what the file says of itself: columns of one value take next to nothing in it."""
    try:
        num_rows, num_columns, num_bytes = parquet_size(place.read_bytes(), place.short_name)
    except (DataError, MissingExtraError):
        return  # it gets an error of its own
    most = 8 * limits.max_values
    if num_rows * num_columns > MAX_LISTS or num_bytes > most:
        raise RequestError(
            413, f"{place.short_name} has too many cells; at most {MAX_LISTS:,}, and {most:,} bytes unpacked"
        )


def parse_json(body: bytes, limits: Limits) -> ArrayInputs | FileInputs:
    """{"inputs": [...], "models": [...]}, models optional.

    An input is an array of numbers, a text, or a row of a table as an object by the names of its columns.
    """
    if len(body) > MAX_LISTS and body.count(b"[") + body.count(b"{") > MAX_LISTS:
        raise RequestError(413, f"the body has too many lists; at most {MAX_LISTS:,}")
    if len(body) > MAX_LISTS and body.count(b":") > MAX_LISTS:
        raise RequestError(413, f"the body has too many cells; at most {MAX_LISTS:,}")
    try:
        content = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise RequestError(400, f"the body is not JSON: {_one_line(error)}") from error
    if not isinstance(content, dict) or "inputs" not in content or content.keys() - {"inputs", "models"}:
        raise RequestError(422, _BODY)
    inputs = content["inputs"]
    if not isinstance(inputs, list):
        raise RequestError(422, "inputs must be a list")
    model_names = None
    if "models" in content:
        model_names = _require_names(content["models"])
    _require_count(len(inputs), limits)
    if isinstance(inputs[0], str):
        return FileInputs(tuple(_texts(inputs)), model_names, InputKind.TEXTS)
    if isinstance(inputs[0], dict):
        return FileInputs(tuple(_rows(inputs)), model_names, InputKind.ROWS)
    shape, numbers = _flatten(inputs)
    # Of the letters of true and false, these two are in no word that a body needs. Names of models may have
    # them: then the slow way is taken, which sees booleans.
    may_have_booleans = b"r" in body or b"f" in body
    values: Values | None = None
    if not may_have_booleans:
        values = _as_bytes(numbers)
    if values is None:
        values = _as_floats(numbers)
    if len(shape) == 1:
        raise RequestError(
            422, "inputs must be a list of arrays, got numbers; one input goes into a list too"
        )
    return ArrayInputs(values.reshape(shape), model_names)


def _texts(inputs: list[Any]) -> Iterator[Input]:
    """Named by their numbers."""
    for number, content in enumerate(inputs, start=1):
        if not isinstance(content, str):
            raise RequestError(422, _MIXED)
        yield Input(str(number), Text(content, f"input {number}"))


def _rows(inputs: list[Any]) -> Iterator[Input]:
    """Named by their numbers; one with a cell that is none is an error of its own."""
    for number, content in enumerate(inputs, start=1):
        if not isinstance(content, dict):
            raise RequestError(422, _MIXED)
        place = f"input {number}"
        try:
            cells = cells_of_object(content)
        except DataError as error:
            yield Input(str(number), None, f"{place}: {error}")
        else:
            yield Input(str(number), Row(tuple(cells.values()), tuple(cells), place))


def _require_names(names: object) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RequestError(422, "models must be a list of names")
    if not names:
        raise RequestError(422, "models must name one or more, or be left out for all")
    return tuple(names)


def _flatten(inputs: list[Any]) -> tuple[Shape, list[Any]]:
    """Of lists in lists: the shape, and what is in the innermost, one after another."""
    shape = [len(inputs)]
    level = inputs
    while level and type(level[0]) is list:
        types = set(map(type, level))
        if types != {list}:
            raise RequestError(422, _NOT_NUMBERS)
        lengths = set(map(len, level))
        if len(lengths) != 1:
            raise RequestError(422, _NOT_NUMBERS)
        shape.append(len(level[0]))
        level = list(chain.from_iterable(level))
    return tuple(shape), level


def _as_bytes(numbers: list[Any]) -> NDArray[np.uint8] | None:
    """Whole numbers 0 to 255, the usual case, several times as fast; None for all else but booleans."""
    try:
        return np.frombuffer(bytearray(numbers), np.uint8)
    except (TypeError, ValueError):
        return None


def _as_floats(numbers: list[Any]) -> NDArray[np.float32]:
    # Before numpy looks: it would take strings and null as well, and room for the longest for each of them.
    types = set(map(type, numbers))
    if not types <= {int, float}:
        raise RequestError(422, _NOT_NUMBERS)
    try:
        values = np.array(numbers, np.float64)
    except OverflowError as error:
        raise RequestError(422, _TOO_LARGE) from error
    # What float32 can't hold becomes infinite, and so an error of its own input.
    values[np.abs(values) > LARGEST_NUMBER] = np.inf
    return values.astype(np.float32)


def parse_form(content_type: str, body: bytes, limits: Limits) -> SentFiles:
    """multipart/form-data: `files`, one or many, and `models`, which may be repeated."""
    places = []
    model_names = []
    for part in parse_parts(content_type, body, limits.max_inputs):
        if part.name == "files":
            if part.file_name is None:
                raise RequestError(422, "files must be files, with a file name")
            places.append(Place(part.file_name or "a picture", part.content))
        elif part.name == "models":
            if part.file_name is not None:
                raise RequestError(422, "models must be names")
            model_names.append(part.content.decode("utf-8", "replace"))
        else:
            raise RequestError(422, "the form has the fields files and models, no others")
    _require_count(len(places), limits)
    return SentFiles(tuple(places), tuple(model_names) or None)


def _require_count(count: int, limits: Limits) -> None:
    if not 1 <= count <= limits.max_inputs:
        raise RequestError(422, f"there must be 1 to {limits.max_inputs:,} inputs, got {count:,}")


def _one_line(error: object) -> str:
    return " ".join(str(error).split())
