"""From the inputs of a request to what a model takes, by the model's own Preprocess: as everywhere else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from nescio.data._values import Value
from nescio.data.preprocess import Preprocess
from nescio.errors import DataError
from nescio.serve._batching import Values
from nescio.serve._errors import RequestError
from nescio.serve._parsing import ArrayInputs, PictureInputs


@dataclass(frozen=True, eq=False)
class Prepared:
    """values: (M, *input_shape), None where M is 0. errors: why others could not be prepared, by position."""

    values: Values | None
    errors: dict[int, DataError]


def prepare(inputs: ArrayInputs | PictureInputs, preprocess: Preprocess) -> Prepared:
    """One input that does not fit costs the others nothing."""
    if isinstance(inputs, PictureInputs):
        return _prepare_each(list(inputs.pictures), preprocess)
    values = _as_they_are(inputs.values, preprocess)
    if values is not None:
        return Prepared(values, {})
    return _prepare_each(list(torch.from_numpy(inputs.values)), preprocess)


def _as_they_are(values: Values, preprocess: Preprocess) -> Values | None:
    """The usual case at once: arrays of the right shape, bytes or finite numbers without a set range."""
    shape = preprocess.input_shape
    if values.ndim == len(shape) == 3 and shape[0] == 1:
        values = values[:, None]  # (N, H, W) -> (N, 1, H, W)
    if values.shape[1:] != shape:
        return None
    if values.dtype == np.uint8:
        return values
    if preprocess.pixel_range is None and bool(np.isfinite(values).all()):
        return values
    return None


def _prepare_each(inputs: list[Value], preprocess: Preprocess) -> Prepared:
    prepared = []
    errors = {}
    for position, value in enumerate(inputs):
        try:
            prepared.append(preprocess.prepare(value).numpy())
        except DataError as error:
            errors[position] = error
    values = np.stack(prepared) if prepared else None
    return Prepared(values, errors)


def require_pixels(inputs: PictureInputs, max_pixels: int) -> None:
    """Few enough pixels in all, by what the headers of the files say: none is decoded for it."""
    total = 0
    for picture in inputs.pictures:
        try:
            height, width = picture.header().size
        except DataError:
            continue  # it is not decoded either: it gets an error of its own
        total += height * width
        if total > max_pixels:
            raise RequestError(413, f"the pictures have too many pixels; at most {max_pixels:,} in all")
