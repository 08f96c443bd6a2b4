"""Preprocess: what all kinds have in common, and the way from plain data back to one of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from nescio._kinds import InputKind
from nescio.data._stored import StoredArray
from nescio.data._values import Value
from nescio.errors import InputError

if TYPE_CHECKING:
    from nescio.data._schema import TableSchema
    from nescio.data.dataset import LabelledData

_CLASSES: dict[InputKind, type[Preprocess]] = {}


class Preprocess(ABC):
    """Brings inputs to a network; the same in training, evaluation, prediction and the service.

    There is one for each kind of data: `ImagePreprocess`, `RowPreprocess`, `TextPreprocess`.

    Attributes:
        kind: What one input is.
        input_shape: Shape of one prepared input: (channels, height, width), (features,) or (tokens,).

    Example:
        >>> from nescio.data import Row
        >>> preprocess = Preprocess.fit(torch.tensor([[1.0, 10.0], [3.0, 30.0]]))
        >>> preprocess(torch.tensor([[3.0, 10.0]]))
        tensor([[ 1., -1.]])
        >>> preprocess.prepare(Row(("3", "10"), None, "new.csv, line 1"))
        tensor([ 3., 10.])
        >>> Preprocess.from_dict(preprocess.to_dict()) == preprocess
        True
    """

    kind: ClassVar[InputKind]
    input_shape: tuple[int, ...]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _CLASSES[cls.kind] = cls

    @classmethod
    def fit(
        cls, inputs: Tensor | StoredArray, weights: Tensor | None = None, schema: TableSchema | None = None
    ) -> Preprocess:
        """From training inputs.

        Args:
            inputs: Images (N, C, H, W), or rows (N, F).
            weights: How much each row counts, (N,); None for all alike. Images are not weighted.
            schema: How the columns of a table became the F numbers of a row; None for plain numbers.

        Returns:
            For bytes the scale is 255, for other images the greatest absolute value, one for all channels to
            keep colours. Rows get their mean and their spread; a column that never changes stays as it is.
        """
        kind = InputKind.IMAGES if inputs.ndim == 4 else InputKind.ROWS
        return _CLASSES[kind].fit(inputs, weights, schema)

    @abstractmethod
    def prepare(self, value: Value) -> Tensor:
        """One input as a tensor of `input_shape`.

        Args:
            value: A picture, a row of a table, a text, or numbers.

        Raises:
            DataError: If it does not fit the model, or is damaged; the message says why.
        """

    @abstractmethod
    def __call__(self, inputs: Tensor) -> Tensor:
        """A batch of prepared inputs (N, *input_shape) as the network takes it."""

    @property
    @abstractmethod
    def preparation(self) -> object:
        """What `prepare` does, hashable: two that have it in common prepare every value alike."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """As plain data, for a model file."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Preprocess:
        """Back from what `to_dict` gave, now or in an earlier version.

        Raises:
            InputError: If it does not fit together.
        """
        fields = dict(data)
        try:
            if "kind" in fields:
                kind = InputKind(fields.pop("kind"))
            else:  # as before there were kinds
                kind = InputKind.IMAGES if len(fields["input_shape"]) == 3 else InputKind.ROWS
            return _CLASSES[kind]._from_fields(fields)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"preprocess does not fit together: {error}") from error

    @classmethod
    @abstractmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Preprocess:
        """One of this kind from what `to_dict` gave, without the kind."""

    def inputs_of(self, data: LabelledData) -> Any:
        """All inputs of a data set as `prepare` gives them, (N, *input_shape).

        Args:
            data: Data of the same kind; images and rows are prepared already, texts become tokens here.

        Raises:
            InputError: If it is of another kind.
        """
        if data.kind != self.kind:
            raise InputError(f"{data.name} must hold {self.kind.value} for this model, got {data.kind.value}")
        return data.inputs

    def example(self) -> Tensor:
        """An input that says nothing (1, *input_shape), of the type that `prepare` gives."""
        return torch.zeros(1, *self.input_shape)

    def input_range(self, raw: Tensor) -> Tensor:
        """The range of raw inputs in each channel (C,), see `input_range_of`, as that of scaled ones (C,)."""
        return raw


def check_scaling(mean: tuple[float, ...], scale: tuple[float, ...], count: int) -> None:
    """Refuse all but a finite mean and a positive scale for each of so many channels."""
    if len(mean) != len(scale) or not all(0 < value < math.inf for value in scale):
        raise InputError(f"scale must be one positive number for each mean, got {scale}")
    if not all(math.isfinite(value) for value in mean):
        raise InputError(f"mean must be finite numbers, got {mean}")
    if len(mean) != count:
        raise InputError(f"preprocess is for {len(mean)} channels, inputs have {count}")


def scaled(inputs: Tensor, mean: tuple[float, ...], scale: tuple[float, ...]) -> Tensor:
    """(x - mean) / scale along axis 1, in float64 if the inputs are, else in float32."""
    wide = inputs if inputs.dtype in (torch.float32, torch.float64) else inputs.float()
    shape = (1, -1) + (1,) * (inputs.ndim - 2)
    return (wide - wide.new_tensor(mean).view(shape)) / wide.new_tensor(scale).view(shape)


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


def sizes_text(shape: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in shape) or "one number"
