"""From the inputs of a request to what a model takes, by the model's own Preprocess: as everywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from nescio._checks import listed
from nescio._kinds import InputKind
from nescio.data import ImagePreprocess, Input, Picture, Preprocess, Row, RowPreprocess, TextPreprocess
from nescio.data._values import Value
from nescio.errors import DataError
from nescio.serve._batching import Values
from nescio.serve._errors import RequestError
from nescio.serve._parsing import ArrayInputs, FileInputs


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a model takes of the inputs of a request.

    values: (M, *input_shape), None where M is 0. errors: why others could not be prepared, by position.
    notes: what a client should know of an input that was, by position.
    """

    values: Values | None
    errors: dict[int, DataError]
    notes: dict[int, str] = field(default_factory=dict)


def refuse_other_kinds(inputs: ArrayInputs | FileInputs, name: str, preprocess: Preprocess) -> None:
    """Refuse texts and rows by name where the model takes something else, however many they are."""
    if not isinstance(inputs, FileInputs) or inputs.kind is None:
        return
    if inputs.kind != preprocess.kind:
        sent = "texts" if inputs.kind == InputKind.TEXTS else "objects by the names of columns"
        raise RequestError(422, f"the model {name} takes {preprocess.kind.value}, not {sent}")
    if isinstance(preprocess, RowPreprocess) and not preprocess.row_schema.has_names:
        numbers = preprocess.row_schema.names
        for one in inputs.inputs:
            if isinstance(one.value, Row) and not set(numbers) <= set(one.value.header or ()):
                raise RequestError(
                    422, f"the model {name} knows its columns by their numbers: {listed(numbers)}"
                )


def prepare(inputs: ArrayInputs | FileInputs, preprocess: Preprocess) -> Prepared:
    """One input that does not fit costs the others nothing."""
    if isinstance(inputs, FileInputs):
        return _prepare_each(inputs.inputs, preprocess)
    values = as_they_are(inputs.values, preprocess)
    if values is not None:
        return Prepared(values, {})
    rows = torch.from_numpy(inputs.values.copy())  # what came as bytes can't be written to
    return _prepare_each([Input("", row) for row in rows], preprocess)


def as_they_are(values: Values, preprocess: Preprocess) -> Values | None:
    """The usual case at once: arrays of the right shape, bytes or finite numbers without a set range."""
    if preprocess.kind == InputKind.TEXTS:
        return None
    shape = preprocess.input_shape
    if values.ndim == len(shape) == 3 and shape[0] == 1:
        values = values[:, None]  # (N, H, W) -> (N, 1, H, W)
    if values.shape[1:] != shape:
        return None
    if isinstance(preprocess, RowPreprocess) and preprocess.shifted_columns:
        return None
    takes_bytes = not isinstance(preprocess, ImagePreprocess) or preprocess.takes_bytes_as_they_are
    if values.dtype == np.uint8:
        return values if takes_bytes else None
    has_range = isinstance(preprocess, ImagePreprocess) and preprocess.pixel_range is not None
    if not has_range and bool(np.isfinite(values).all()):
        return values
    return None


def _prepare_each(inputs: Sequence[Input], preprocess: Preprocess) -> Prepared:
    prepared = []
    errors = {}
    notes = {}
    for position, one in enumerate(inputs):
        try:
            if one.value is None:
                raise DataError(one.error)
            value, note = _prepare_one(one.value, preprocess)
            prepared.append(value.numpy())
            if note is not None:
                notes[position] = note
        except DataError as error:
            errors[position] = error
    values = np.stack(prepared) if prepared else None
    return Prepared(values, errors, notes)


def _prepare_one(value: Value, preprocess: Preprocess) -> tuple[Tensor, str | None]:
    """A tensor of the model's input shape, and what is to be said of it."""
    if not isinstance(preprocess, TextPreprocess):
        return preprocess.prepare(value), None
    prepared, is_cut = preprocess.prepare_with_cut(value)
    if not is_cut:
        return prepared, None
    most = preprocess.max_length
    return prepared, f"longer than {most} tokens: the model reads the first {most}"


def require_pixels(inputs: FileInputs, max_pixels: int) -> None:
    """Refuse too many pixels in all, by what the headers of the files say: none is decoded for it."""
    total = 0
    for one in inputs.inputs:
        if not isinstance(one.value, Picture):
            continue
        try:
            height, width = one.value.header().size
        except DataError:
            continue  # it is not decoded either: it gets an error of its own
        total += height * width
        if total > max_pixels:
            raise RequestError(
                413, f"the pictures have too many pixels; at most {max_pixels:,} in all, {one.name} is above"
            )
