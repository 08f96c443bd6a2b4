"""Preprocess: from what a source reads to what a network takes. It is stored in the model file.

There are two steps. `prepare` brings one value (a picture, a row of a table, an array) to a tensor of the
shape that the model was trained on. Called on a batch of such tensors, a Preprocess scales it: rows of
numbers get zero mean and unit spread a column; images get the range from 0 to 1 and keep their zero, so that
where nothing is in the picture the network is fed nothing, and finds evidence only in what is there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio._checks import require_whole
from nescio.data._stored import StoredArray, row_chunks
from nescio.data._values import Picture, Row, Value
from nescio.errors import DataError, InputError

CONSTANT = 1e-12  # a spread below this part of the mean is rounding
LARGEST_NUMBER = float(np.finfo(np.float32).max)
LABEL_COLUMNS = ("label", "class", "target", "y")
BYTES = (0.0, 255.0)


@dataclass(frozen=True)
class Preprocess:
    """Brings inputs to a network; the same in training, evaluation, prediction and the service.

    Args:
        input_shape: Of one input: (channels, height, width), or (columns,).
        mean: Taken from each channel or column, (C,).
        scale: By which each is divided then, (C,), positive.
        columns: The names of a table's columns in the order that the network takes them. With them, a table
            with a header is read by name; without, by position.
        pixel_range: The least and the greatest value that a pixel may have; None for images that were no
            bytes, and for rows.
        label_position: Where the labels were among the columns of the training table, from 0 on; a row by
            position that has a cell too many has its label there. None where the usual place is meant.

    Raises:
        InputError: If these do not fit together.

    Example:
        >>> preprocess = Preprocess.fit(torch.tensor([[1.0, 10.0], [3.0, 30.0]]))
        >>> preprocess(torch.tensor([[3.0, 10.0]]))
        tensor([[ 1., -1.]])
        >>> preprocess.prepare(Row(("3", "10"), None, "new.csv, line 1"))
        tensor([ 3., 10.])
    """

    input_shape: tuple[int, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    columns: tuple[str, ...] | None = None
    pixel_range: tuple[float, float] | None = None
    label_position: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "input_shape", tuple(int(size) for size in self.input_shape))
        object.__setattr__(self, "mean", tuple(float(value) for value in self.mean))
        object.__setattr__(self, "scale", tuple(float(value) for value in self.scale))
        if len(self.mean) != len(self.scale) or not all(0 < value < math.inf for value in self.scale):
            raise InputError(f"scale must be one positive number for each mean, got {self.scale}")
        if not all(math.isfinite(value) for value in self.mean):
            raise InputError(f"mean must be finite numbers, got {self.mean}")
        if len(self.mean) != self.input_shape[0]:
            raise InputError(
                f"preprocess is for {len(self.mean)} channels, inputs have {self.input_shape[0]}"
            )
        if self.columns is not None:
            object.__setattr__(self, "columns", tuple(str(name) for name in self.columns))
            if self.input_shape != (len(self.columns),):
                raise InputError(f"{len(self.columns)} columns do not fit inputs {self.input_shape}")
        if self.pixel_range is not None:
            least, most = self.pixel_range
            object.__setattr__(self, "pixel_range", (float(least), float(most)))
        if self.label_position is not None:
            require_whole("label_position", self.label_position, least=0, most=self.input_shape[0])

    @classmethod
    def fit(
        cls,
        inputs: Tensor | StoredArray,
        weights: Tensor | None = None,
        columns: tuple[str, ...] | None = None,
        label_position: int | None = None,
    ) -> Preprocess:
        """From training inputs.

        Args:
            inputs: Images (N, C, H, W), or rows (N, F).
            weights: How much each row counts, (N,); None for all alike. Images are not weighted.
            columns: The names of the columns of rows, where they have names.
            label_position: Where the labels were among the columns, see Preprocess.

        Returns:
            For bytes the scale is 255, for other images the greatest absolute value, one for all channels to
            keep colours. Rows get their mean and their spread; a column that never changes stays as it is.
        """
        shape = tuple(inputs.shape[1:])
        if inputs.ndim == 4:
            zeros = (0.0,) * shape[0]
            if inputs.dtype == torch.uint8:
                return cls(shape, zeros, (BYTES[1],) * shape[0], pixel_range=BYTES)
            greatest = max(float(part.abs().max()) for part in row_chunks(inputs)) or 1.0
            return cls(shape, zeros, (greatest,) * shape[0])
        share = torch.ones(len(inputs)) if weights is None else weights
        share = share.double() / share.sum()
        mean = _mean_of(inputs, share, torch.zeros(inputs.shape[1], dtype=torch.float64), power=1)
        scale = _mean_of(inputs, share, mean, power=2).sqrt()
        scale = torch.where(scale > CONSTANT * mean.abs().clamp_min(1), scale, 1.0)
        return cls(shape, tuple(mean.tolist()), tuple(scale.tolist()), columns, label_position=label_position)

    def prepare(self, value: Value) -> Tensor:
        """One input as a tensor of `input_shape`: uint8 for pictures and bytes, else float32.

        Args:
            value: A picture, a row of a table, or numbers. Images may have their channels last, and grey
                ones no axis for them.

        Raises:
            DataError: If it does not fit the model, or is damaged, or has values that are not finite or no
                pixels; the message says why.
        """
        takes_images = len(self.input_shape) == 3
        if isinstance(value, Picture):
            if not takes_images:
                raise DataError(f"the model takes rows of {self.input_shape[0]} numbers, not pictures")
            channels, height, width = self.input_shape
            return value.pixels(channels, (height, width))
        if isinstance(value, Row):
            if takes_images:
                raise DataError(f"the model takes pictures {_sizes(self.input_shape)}, not rows of a table")
            return self._numbers(value)
        return self._checked(self._shaped(value))

    def __call__(self, inputs: Tensor) -> Tensor:
        """Scale a batch: (x - mean) / scale along axis 1.

        Args:
            inputs: (N, *input_shape).

        Returns:
            (N, *input_shape) in float64 if the inputs are, else in float32.
        """
        wide = inputs if inputs.dtype in (torch.float32, torch.float64) else inputs.float()
        shape = (1, -1) + (1,) * (inputs.ndim - 2)
        mean = wide.new_tensor(self.mean).view(shape)
        scale = wide.new_tensor(self.scale).view(shape)
        return (wide - mean) / scale

    def input_range(self, raw: Tensor) -> Tensor:
        """The range of raw inputs in each channel (C,), see `input_range_of`, as that of scaled ones (C,)."""
        return raw / raw.new_tensor(self.scale)

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for a model file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Preprocess:
        """Back from what `to_dict` gave.

        Raises:
            InputError: If it does not fit together.
        """
        try:
            return cls(**data)
        except TypeError as error:
            raise InputError(f"preprocess does not fit together: {error}") from error

    def _shaped(self, values: Tensor) -> Tensor:
        shape = self.input_shape
        given = tuple(values.shape)
        if values.ndim == 2 and len(shape) == 3 and shape[0] == 1:
            values = values.unsqueeze(0)  # (H, W) -> (1, H, W)
        if values.ndim == len(shape) == 3 and tuple(values.shape) != shape:
            channels_first = values.permute(2, 0, 1)  # (H, W, C) -> (C, H, W)
            if tuple(channels_first.shape) == shape:
                values = channels_first
        if tuple(values.shape) != shape:
            raise DataError(f"must be {_sizes(shape)} numbers, got {_sizes(given)}")
        return values

    def _checked(self, values: Tensor) -> Tensor:
        if values.dtype != torch.uint8:
            values = values.float()
        if len(self.input_shape) == 1:
            values = values.float()
        if not bool(values.isfinite().all()):
            raise DataError("has a value that is not finite")
        if self.pixel_range is not None and values.dtype != torch.uint8:
            least, most = self.pixel_range
            if float(values.min()) < least or float(values.max()) > most:
                raise DataError(f"has pixels that are not {least:g} to {most:g}")
        return values

    def _numbers(self, row: Row) -> Tensor:
        count = len(row.cells)
        if row.header is not None and count != len(row.header):
            raise DataError(f"{row.place}: {len(row.header)} columns expected, got {count}")
        places = self._columns_in(row.header, count, row.place)
        numbers = []
        for place in places:
            column = str(place + 1) if row.header is None else row.header[place]
            numbers.append(_number(row.cells[place], f"{row.place}, column {column}"))
        return torch.tensor(numbers, dtype=torch.float32)

    def _columns_in(self, header: tuple[str, ...] | None, count: int, place: str) -> tuple[int, ...]:
        """The positions of a row's numbers: by name where both sides have names, else all but a label's."""
        if header is not None and self.columns is not None:
            found = _columns_by_name(header, self.columns)
            if found is None:
                missing = [name for name in self.columns if name not in header]
                raise DataError(f"{place}: the model needs the columns {', '.join(missing[:5])}")
            return found
        width = self.input_shape[0]
        everything = list(range(count))
        if count == width + 1:
            label = self.label_position
            everything.remove(label_column(header, count) if label is None else label)
        if len(everything) != width:
            raise DataError(f"{place}: {width} columns of numbers expected, got {count} columns")
        return tuple(everything)


def input_range_of(inputs: Tensor | StoredArray) -> Tensor:
    """From the least to the greatest value in each channel of (N, C, ...), (C,), in floating point."""
    axes = [axis for axis in range(inputs.ndim) if axis != 1]
    least, greatest = _extremes(inputs, axes)
    if inputs.is_floating_point():
        return greatest - least
    return greatest.float() - least.float()


def _extremes(inputs: Tensor | StoredArray, axes: list[int]) -> tuple[Tensor, Tensor]:
    """The least and the greatest value along these axes, of which the first is that of the samples."""
    if isinstance(inputs, Tensor):
        return inputs.amin(axes), inputs.amax(axes)
    least = []
    greatest = []
    for part in inputs.chunks():
        least.append(part.amin(axes))
        greatest.append(part.amax(axes))
    return torch.stack(least).amin(0), torch.stack(greatest).amax(0)


def _mean_of(inputs: Tensor | StoredArray, share: Tensor, center: Tensor, power: int) -> Tensor:
    """Weighted mean of (x - center)^power for each channel (C,), a part of the samples at a time."""
    total = torch.zeros_like(center)
    for part, weight in zip(row_chunks(inputs, 4096), torch.split(share, 4096), strict=True):
        pixels = part.flatten(2) if part.ndim > 2 else part.unsqueeze(2)
        values = pixels.double()  # (n, C, pixels)
        total += torch.einsum("ncp,n->c", (values - center.view(1, -1, 1)) ** power, weight) / values.shape[2]
    return total


@lru_cache(maxsize=16)
def _columns_by_name(header: tuple[str, ...], columns: tuple[str, ...]) -> tuple[int, ...] | None:
    """Where the columns are in the header; None where one of them is not."""
    places = {name: place for place, name in enumerate(header)}
    if any(name not in places for name in columns):
        return None
    return tuple(places[name] for name in columns)


def label_column(header: tuple[str, ...] | None, count: int) -> int:
    """The position of the labels among so many columns: by the usual names, else the last."""
    names = [name.lower() for name in header or ()]
    for (
        usual
    ) in LABEL_COLUMNS:  # in this order: beside x, a column y holds numbers where another holds labels
        if usual in names:
            return names.index(usual)
    return count - 1


def _number(cell: str, where: str) -> float:
    number = as_number(cell)
    if number is None or not abs(number) <= LARGEST_NUMBER:
        raise DataError(f"{where}: a finite number expected that float32 can hold, got {cell!r}")
    return number


def as_number(text: str) -> float | None:
    """The number that a text is; None where it is none."""
    try:
        return float(text)
    except ValueError:
        return None


def _sizes(shape: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in shape) or "one number"
