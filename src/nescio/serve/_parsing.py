"""From the body of a request to its inputs, not yet brought to a model. Nothing here touches the disk."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from nescio._kinds import InputKind
from nescio.data import Input, Place, Row, Text, open_sources
from nescio.data._columns import LARGEST_NUMBER
from nescio.data._table_files import SUFFIXES as TABLES
from nescio.data._table_files import cells_of_object, parquet_size
from nescio.data.sources._opening import is_single_picture
from nescio.errors import DataError, MissingExtraError
from nescio.inference.records import FIELDS
from nescio.serve._batching import Values
from nescio.serve._errors import RequestError
from nescio.serve._forms import parse_parts
from nescio.serve.limits import Limits

Shape = tuple[int, ...]
MAX_LISTS = 2_000_000  # an empty one takes two bytes of a body and thirty times that once it is parsed
_NOT_NUMBERS = "inputs must be arrays of numbers, all of one shape"
_TOO_LARGE = "inputs must be numbers that float32 can hold"
_MIXED = "inputs must all be texts, all be objects by the names of columns, or all be arrays"
_BODY = 'the body must be {"inputs": [...]}, with "models": [...] if not all are asked, and "fields": [...]'
_BODY_KEYS = frozenset(("inputs", "models", "fields"))
_DTYPES: dict[str, np.dtype[Any]] = {
    "uint8": np.dtype("u1"),
    "float32": np.dtype("<f4"),
}  # of an array that is sent as it is
_MAX_NPY_HEADER = 4096  # bytes
_MAX_OPTIONS = 1000


@dataclass(frozen=True)
class Options:
    """What a request asks for beside its inputs: in its query, or in its body.

    models: the names of the models that are asked, None for all. fields: those of an opinion that are wanted,
    None for all. dtype: of an array without a header, "uint8" or "float32"; None where it is not said.
    """

    models: tuple[str, ...] | None = None
    fields: frozenset[str] | None = None
    dtype: str | None = None

    def joined(self, other: Options) -> Options:
        """Both together; what the other one says as well goes first."""
        if other is NOTHING_SAID:
            return self
        models = self.models if other.models is None else other.models
        fields = self.fields if other.fields is None else other.fields
        return Options(models, fields, self.dtype)


NOTHING_SAID = Options()
_decode_json = msgspec.json.Decoder().decode


def parse_query(query: bytes) -> Options:
    """models=NAME, which may be repeated; fields=NAME,NAME; dtype=uint8 or float32."""
    if not query:
        return NOTHING_SAID
    models: list[str] = []
    fields: list[str] = []
    dtype = None
    try:
        pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=_MAX_OPTIONS)
    except ValueError as error:
        raise RequestError(422, f"the query has too many parts; at most {_MAX_OPTIONS:,}") from error
    for name, value in pairs:
        if name == "models":
            models.append(value)
        elif name == "fields":
            fields += value.split(",")
        elif name == "dtype" and value in _DTYPES and dtype in (None, value):
            dtype = value
        elif name == "dtype":
            raise RequestError(422, "dtype must be uint8 or float32, once")
        else:
            raise RequestError(422, "the query has models, fields and dtype, no others")
    return Options(tuple(models) or None, _require_fields(fields) if fields else None, dtype)


def _require_fields(fields: list[str]) -> frozenset[str]:
    if not fields or not set(fields) <= set(FIELDS):
        raise RequestError(422, f"fields must be one or more of {', '.join(FIELDS)}")
    return frozenset(fields)


@dataclass(frozen=True, eq=False)
class ArrayInputs:
    """Inputs as numbers (N, ...)."""

    values: Values
    options: Options = NOTHING_SAID

    @property
    def names(self) -> tuple[str, ...]:
        if len(self.values) == 1:
            return ("1",)
        return tuple(str(number) for number in range(1, len(self.values) + 1))


@dataclass(frozen=True, eq=False)
class RawInputs:
    """Numbers one after the other: the shape of an input is what the models take."""

    values: Values  # (M,)
    options: Options = NOTHING_SAID

    def shaped(self, shape: Shape, limits: Limits) -> ArrayInputs:
        """Inputs of this shape; refused where they are no whole number of them."""
        size = prod(shape)
        count, rest = divmod(len(self.values), size)
        if rest or not count:
            dtype = self.values.dtype.name
            raise RequestError(
                422,
                f"the body must be inputs of {' x '.join(map(str, shape))} numbers of {dtype} each, "
                f"{size * self.values.itemsize:,} bytes, got {self.values.nbytes:,} bytes",
            )
        _require_count(count, limits)
        return ArrayInputs(self.values.reshape(count, *shape), self.options)


@dataclass(frozen=True, eq=False)
class SentFiles:
    """Files as they came, not opened yet."""

    places: tuple[Place, ...]
    options: Options = NOTHING_SAID

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
        return FileInputs(tuple(source.read(range(len(source)))), self.options)


@dataclass(frozen=True, eq=False)
class FileInputs:
    """Inputs from files, or texts and rows that came as JSON.

    kind: what came as JSON, None for files.
    """

    inputs: tuple[Input, ...]
    options: Options = NOTHING_SAID
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
        content = _decode_json(body)
    except (ValueError, RecursionError) as error:
        raise RequestError(400, f"the body is not JSON: {_one_line(error)}") from error
    if not isinstance(content, dict) or "inputs" not in content or content.keys() - _BODY_KEYS:
        raise RequestError(422, _BODY)
    inputs = content["inputs"]
    if not isinstance(inputs, list):
        raise RequestError(422, "inputs must be a list")
    options = NOTHING_SAID
    if len(content) > 1:
        options = _options_of(content)
    _require_count(len(inputs), limits)
    if isinstance(inputs[0], str):
        return FileInputs(tuple(_texts(inputs)), options, InputKind.TEXTS)
    if isinstance(inputs[0], dict):
        return FileInputs(tuple(_rows(inputs)), options, InputKind.ROWS)
    # Of the letters of true and false, these two are in no word that a body needs. Names of models may have
    # them: then the slow way is taken, which sees booleans.
    may_have_booleans = b"r" in body or b"f" in body
    if not may_have_booleans:
        pixels = _as_pixels(inputs)
        if pixels is not None:
            return ArrayInputs(pixels, options)
    shape, numbers = _flatten(inputs)
    values: Values | None = None
    if not may_have_booleans:
        values = _as_bytes(numbers)
    if values is None:
        values = _as_floats(_only_numbers(numbers))
    if len(shape) == 1:
        raise RequestError(
            422, "inputs must be a list of arrays, got numbers; one input goes into a list too"
        )
    return ArrayInputs(values.reshape(shape), options)


def _options_of(content: dict[str, Any]) -> Options:
    models = None
    fields = None
    if "models" in content:
        models = _require_names(content["models"])
    if "fields" in content:
        wanted = content["fields"]
        if not isinstance(wanted, list) or not all(isinstance(name, str) for name in wanted):
            raise RequestError(422, "fields must be a list of names")
        fields = _require_fields(wanted)
    return Options(models, fields)


def parse_raw(body: bytes, dtype: str | None) -> RawInputs:
    """Numbers without a header: little-endian, in the order of C, the inputs one after the other."""
    kind = _DTYPES[dtype or "uint8"]
    if len(body) % kind.itemsize:
        raise RequestError(422, f"the body must be numbers of {kind.name}, got {len(body):,} bytes")
    return RawInputs(np.frombuffer(body, kind))


def parse_npy(body: bytes, limits: Limits) -> ArrayInputs:
    """A .npy file: inputs (N, ...) of whole or floating-point numbers."""
    stream = io.BytesIO(body)
    try:
        version = npy.read_magic(stream)
        read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        shape, is_fortran, dtype = read_header(stream, max_header_size=_MAX_NPY_HEADER)
    except (ValueError, KeyError, SyntaxError, TypeError) as error:
        raise RequestError(400, "the body is not a .npy file that can be read") from error
    if dtype.kind not in "uif" or dtype.itemsize > 8:
        raise RequestError(422, f"the array must be of whole or floating-point numbers, got {dtype}")
    if len(shape) < 2:
        raise RequestError(422, f"the array must have inputs along its first axis, got the shape {shape}")
    _require_count(shape[0], limits)
    start = stream.tell()
    if min(shape) < 0 or prod(shape) * dtype.itemsize != len(body) - start:
        raise RequestError(422, f"the array must fill the file, got {len(body) - start:,} bytes for {shape}")
    values = np.frombuffer(body, dtype, offset=start)
    values = values.reshape(shape[::-1]).T if is_fortran else values.reshape(shape)
    if dtype != np.uint8:
        values = _as_floats(values.astype(np.float64))
    return ArrayInputs(np.ascontiguousarray(values))


def _texts(inputs: list[Any]) -> Iterator[Input]:
    """Named by their numbers."""
    for number, content in enumerate(inputs, start=1):
        if not isinstance(content, str):
            raise RequestError(422, _MIXED)
        yield Input(str(number), Text(content, f"input {number}"))


def _rows(inputs: list[Any]) -> Iterator[Input]:
    """Named by their numbers."""
    for number, content in enumerate(inputs, start=1):
        if not isinstance(content, dict):
            raise RequestError(422, _MIXED)
        cells = cells_of_object(content)
        yield Input(str(number), Row(tuple(cells.values()), tuple(cells), f"input {number}"))


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


def _as_pixels(inputs: list[Any]) -> NDArray[np.uint8] | None:
    """Pictures (N, H, W) of whole numbers 0 to 255, the usual case, in a shorter way; None for all else."""
    if set(map(type, inputs)) != {list}:
        return None
    rows: list[Any] = list(chain.from_iterable(inputs))
    if set(map(type, rows)) != {list}:
        return None
    height = len(inputs[0])
    width = len(rows[0])
    if set(map(len, inputs)) != {height} or set(map(len, rows)) != {width}:
        return None
    try:
        pixels = b"".join(map(bytes, rows))
    except (TypeError, ValueError):
        return None
    return np.frombuffer(pixels, np.uint8).reshape(len(inputs), height, width)


def _as_bytes(numbers: list[Any]) -> NDArray[np.uint8] | None:
    """Whole numbers 0 to 255, the usual case, several times as fast; None for all else but booleans."""
    try:
        return np.frombuffer(bytearray(numbers), np.uint8)
    except (TypeError, ValueError):
        return None


def _only_numbers(numbers: list[Any]) -> NDArray[np.float64]:
    # Before numpy looks: it would take strings and null as well, and room for the longest for each of them.
    types = set(map(type, numbers))
    if not types <= {int, float}:
        raise RequestError(422, _NOT_NUMBERS)
    try:
        return np.array(numbers, np.float64)
    except OverflowError as error:
        raise RequestError(422, _TOO_LARGE) from error


def _as_floats(values: NDArray[np.float64]) -> NDArray[np.float32]:
    # What float32 can't hold becomes infinite, and so an error of its own input.
    values[np.abs(values) > LARGEST_NUMBER] = np.inf
    return values.astype(np.float32)


def parse_form(content_type: str, body: bytes, limits: Limits) -> SentFiles:
    """multipart/form-data: `files`, one or many, and `models`, which may be repeated."""
    places: list[Place] = []
    model_names: list[str] = []
    fields: list[str] = []
    for part in parse_parts(content_type, body, limits.max_inputs):
        if part.name == "files":
            if part.file_name is None:
                number = len(places) + 1
                raise RequestError(422, f"files must be files, with a file name; number {number} has none")
            places.append(Place(part.file_name or "a picture", part.content))
        elif part.name == "models":
            if part.file_name is not None:
                raise RequestError(422, "models must be names")
            model_names.append(part.content.decode("utf-8", "replace"))
        elif part.name == "fields" and part.file_name is None:
            fields += part.content.decode("utf-8", "replace").split(",")
        else:
            raise RequestError(422, "the form has the fields files, models and fields, no others")
    _require_count(len(places), limits)
    options = Options(tuple(model_names) or None, _require_fields(fields) if fields else None)
    return SentFiles(tuple(places), options)


def _require_count(count: int, limits: Limits) -> None:
    if not 1 <= count <= limits.max_inputs:
        raise RequestError(422, f"there must be 1 to {limits.max_inputs:,} inputs, got {count:,}")


def _one_line(error: object) -> str:
    return " ".join(str(error).split())
