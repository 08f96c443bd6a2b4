"""RowPreprocess: rows of a table, or of plain numbers, to rows of scaled numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from nescio._checks import listed
from nescio._kinds import InputKind
from nescio._precision import to_float64
from nescio.data._columns import NumberColumn
from nescio.data._schema import TableSchema
from nescio.data._stored import StoredArray, row_chunks
from nescio.data._values import Picture, Row, Text, Value
from nescio.data.preprocess._base import Preprocess, check_scaling, scaled, sizes_text
from nescio.errors import DataError, InputError

CHUNK = 4096  # rows that are looked at at a time
CONSTANT = 1e-12  # a spread below this part of the mean is rounding


@dataclass(frozen=True)
class RowPreprocess(Preprocess):
    """Brings rows of a table to numbers, and numbers to zero mean and unit spread.

    Args:
        input_shape: (features,).
        mean: Taken from each feature, (F,).
        scale: What each feature is divided by then, (F,), positive.
        schema: How the columns of a table become the F features; None for plain numbers without names.

    Raises:
        InputError: If these do not fit together.

    Example:
        >>> rows = torch.tensor([[1.0, 10.0], [3.0, 30.0]])
        >>> preprocess = RowPreprocess.fit(rows, schema=TableSchema.of_numbers(("a", "b")))
        >>> preprocess.prepare(Row(("30", "1"), ("b", "a"), "new.csv, line 2"))
        tensor([ 1., 30.])
    """

    kind: ClassVar[InputKind] = InputKind.ROWS
    input_shape: tuple[int, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    schema: TableSchema | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "input_shape", tuple(int(size) for size in self.input_shape))
        object.__setattr__(self, "mean", tuple(float(value) for value in self.mean))
        object.__setattr__(self, "scale", tuple(float(value) for value in self.scale))
        if len(self.input_shape) != 1:
            raise InputError(f"input_shape must be (features,), got {self.input_shape}")
        check_scaling(self.mean, self.scale, self.input_shape[0])
        if self.schema is not None and self.schema.num_features != self.input_shape[0]:
            raise InputError(
                f"columns of {self.schema.num_features} features do not fit inputs {self.input_shape}"
            )

    @classmethod
    def fit(
        cls, inputs: Tensor | StoredArray, weights: Tensor | None = None, schema: TableSchema | None = None
    ) -> RowPreprocess:
        """See `Preprocess.fit`. What is not measured, such as categories, stays as it is."""
        share = torch.ones(len(inputs)) if weights is None else weights
        share = to_float64(share) / share.sum()
        mean = _mean_of(inputs, share, to_float64(torch.zeros(inputs.shape[1])), power=1)
        scale = _mean_of(inputs, share, mean, power=2).sqrt()
        least = (CONSTANT * mean.abs()).clamp_min(torch.finfo(torch.float32).tiny)
        scale = torch.where(scale > least, scale, 1.0)
        if schema is not None:
            # A category that one row in ten thousand has would become a hundred by its spread.
            is_measured = torch.tensor(schema.measured)
            mean = torch.where(is_measured, mean, 0.0)
            scale = torch.where(is_measured, scale, 1.0)
        return cls(tuple(inputs.shape[1:]), tuple(mean.tolist()), tuple(scale.tolist()), schema)

    def prepare(self, value: Value) -> Tensor:
        """One row of features (F,), float32.

        Args:
            value: A row of a table, or F numbers.

        Raises:
            DataError: If it does not fit the model, or has values that are not finite, or numbers stand for
                columns whose values are kept as differences; the message says why.
        """
        width = self.input_shape[0]
        if isinstance(value, Row):
            return self.row_schema.encode(value)
        if isinstance(value, Picture):
            raise DataError(f"the model takes {self._rows_taken()}, not pictures")
        if isinstance(value, Text):
            raise DataError(f"the model takes {self._rows_taken()}, not texts")
        if tuple(value.shape) != self.input_shape:
            raise DataError(f"must be {width} numbers, got {sizes_text(tuple(value.shape))}")
        if self.shifted_columns:
            names = listed(self.shifted_columns)
            raise DataError(
                f"an array has too few digits for the numbers of {names}; give rows by the names of columns"
            )
        values = value.float()
        if not bool(values.isfinite().all()):
            raise DataError("has a value that is not finite")
        return values

    def __call__(self, inputs: Tensor) -> Tensor:
        """Scale a batch: (x - mean) / scale for each feature.

        Args:
            inputs: (N, F).

        Returns:
            (N, F) in float64 if the inputs are, else in float32.
        """
        return scaled(inputs, self.mean, self.scale)

    def _rows_taken(self) -> str:
        """What rows of a table are to be, in words."""
        if self.schema is not None and self.schema.has_names:
            return f"rows of a table with the columns {listed(self.schema.names)}"
        return f"rows of {self.input_shape[0]} numbers"

    @cached_property
    def shifted_columns(self) -> tuple[str, ...]:
        """Columns of which the network gets differences: plain numbers in an array can't stand for them."""
        columns = () if self.schema is None else self.schema.columns
        return tuple(each.name for each in columns if isinstance(each, NumberColumn) and each.offset)

    @property
    def preparation(self) -> object:
        """Everything but the scaling."""
        return (self.kind, self.input_shape, self.schema)

    def input_range(self, raw: Tensor) -> Tensor:
        """The range of raw inputs in each channel (C,), see `input_range_of`, as that of scaled ones (C,)."""
        return raw / raw.new_tensor(self.scale)

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for a model file."""
        schema = None if self.schema is None else self.schema.to_dict()
        return {
            "kind": self.kind.value,
            "input_shape": self.input_shape,
            "mean": self.mean,
            "scale": self.scale,
            "schema": schema,
        }

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> RowPreprocess:
        if "schema" not in fields:
            fields["schema"] = _former_schema(fields)
        elif fields["schema"] is not None:
            fields["schema"] = TableSchema.from_dict(fields["schema"])
        return cls(**fields)

    @property
    def row_schema(self) -> TableSchema:
        """The schema by which rows are read: of numbers without names where there is none."""
        return self.schema or TableSchema.of_numbers(count=self.input_shape[0])


def _former_schema(fields: dict[str, Any]) -> TableSchema | None:
    """From before there were schemas: the names of columns of numbers, and where the label was."""
    fields.pop("pixel_range", None)
    names = fields.pop("columns", None)
    label_position = fields.pop("label_position", None)
    if names is None and label_position is None:
        return None
    return TableSchema.of_numbers(names, len(fields["mean"]), label_position)


def _mean_of(inputs: Tensor | StoredArray, share: Tensor, center: Tensor, power: int) -> Tensor:
    """Weighted mean of (x - center)^power for each feature (F,), a part of the samples at a time."""
    total = torch.zeros_like(center)
    for part, weight in zip(row_chunks(inputs, CHUNK), torch.split(share, CHUNK), strict=True):
        values = to_float64(part.unsqueeze(2))  # (n, F, 1)
        total += torch.einsum("ncp,n->c", (values - center.view(1, -1, 1)) ** power, weight) / values.shape[2]
    return total
