"""The value objects that hold data: Dataset for images, Table for rows of numbers, Texts for texts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from nescio._checks import describe, require_whole
from nescio._kinds import InputKind
from nescio.data._schema import TableSchema
from nescio.data._stored import StoredArray, select_rows
from nescio.errors import DataError, InputError

PARTS = ("train", "validation", "test")
AnyData = TypeVar("AnyData", bound="_Labelled")


class _Labelled(ABC):
    """What the three kinds of data have in common: samples with labels, some of which can be taken.

    It is no dataclass itself: the inputs must stay the first field of each kind.
    """

    labels: Tensor
    classes: tuple[str, ...]
    name: str
    groups: Tensor | None
    parts: Tensor | None

    @abstractmethod
    def _inputs_at(self, index: Tensor) -> dict[str, Any]:
        """The field that holds the inputs, with those at these positions or of this mask."""

    def __len__(self) -> int:
        return len(self.labels)

    def only(self: AnyData, classes: Sequence[str | int]) -> AnyData:
        """The samples of some classes; labels are counted anew in the order given.

        Args:
            classes: Names or positions, all different.

        Raises:
            InputError: If there is no such class.
        """
        wanted = [_class_index(self, one) for one in classes]
        if not wanted or len(set(wanted)) != len(wanted):
            raise InputError(f"classes must be one or more different classes, got {list(classes)}")
        renumbered = torch.full((len(self.classes),), -1)
        renumbered[wanted] = torch.arange(len(wanted))
        labels = renumbered[self.labels]
        kept = labels >= 0
        names = tuple(self.classes[index] for index in wanted)
        return replace(self.take(kept), labels=labels[kept], classes=names)  # type: ignore[type-var]

    def subset(self: AnyData, count: int, generator: torch.Generator) -> AnyData:
        """Different samples, drawn by chance.

        Args:
            count: How many, at most all of them.
            generator: Source of randomness.

        Raises:
            InputError: If there are less.
        """
        require_whole("count", count, least=1, most=len(self))
        return self.take(torch.randperm(len(self), generator=generator)[:count])

    def take(self: AnyData, index: Tensor) -> AnyData:
        """The samples at these positions (M,), or where a mask (N,) is true; stored ones are not copied."""
        groups = None if self.groups is None else self.groups[index]
        parts = None if self.parts is None else self.parts[index]
        return replace(  # type: ignore[type-var]
            self, **self._inputs_at(index), labels=self.labels[index], groups=groups, parts=parts
        )


@dataclass(frozen=True, eq=False)
class Dataset(_Labelled):
    """Images with labels, in memory or on the disk.

    Args:
        images: uint8, or float32 and finite, (N, C, H, W); of a stored array, only what is asked for is
            read.
        labels: int64 (N,), each a position among the classes.
        classes: The names of the classes, all different.
        name: Name of the data, for messages.
        resize: How the pictures were brought to their size, see `ImagePreprocess`.
        groups: int64 (N,); `split` keeps samples of one group together. None where all are on their own.
        parts: int64 (N,), each a position among `PARTS`, where the data says itself what it is for.

    Raises:
        DataError: If these do not fit together.

    Example:
        >>> pictures = torch.zeros(3, 1, 28, 28, dtype=torch.uint8)
        >>> data = Dataset(pictures, torch.tensor([0, 1, 1]), ("cat", "dog"), "three pictures")
        >>> data
        Dataset('three pictures', 3 images 1x28x28, 2 classes)
        >>> data.only(["dog"])
        Dataset('three pictures', 2 images 1x28x28, 1 classes)
    """

    kind: ClassVar[InputKind] = InputKind.IMAGES
    images: Tensor | StoredArray
    labels: Tensor
    classes: tuple[str, ...]
    name: str
    resize: str = "stretch"
    groups: Tensor | None = None
    parts: Tensor | None = None

    def __post_init__(self) -> None:
        _check_tensors(self.name, images=self.images, labels=self.labels)
        if self.images.dtype not in (torch.uint8, torch.float32) or self.images.ndim != 4:
            found = _describe(self.images)
            raise DataError(f"{self.name}: images must be uint8 or float32 (N, C, H, W), got {found}")
        _check_finite(self.name, "images", self.images)
        _check_labels(self.name, len(self.images), self.labels, self.classes)
        _check_memberships(self)

    @property
    def inputs(self) -> Tensor | StoredArray:
        """What a network is fed from, as in a Table: the images (N, C, H, W)."""
        return self.images

    def __repr__(self) -> str:
        shape = "x".join(str(size) for size in self.images.shape[1:])
        return f"Dataset({self.name!r}, {len(self)} images {shape}, {len(self.classes)} classes)"

    def _inputs_at(self, index: Tensor) -> dict[str, Any]:
        return {"images": select_rows(self.images, index)}


@dataclass(frozen=True, eq=False)
class Table(_Labelled):
    """Rows of numbers with labels, in memory or on the disk.

    Args:
        features: float32 (N, F), finite; of a stored array, only what is asked for is read.
        labels: int64 (N,), each a position among the classes.
        classes: The names of the classes, all different.
        name: Name of the data, for messages.
        schema: How the columns of a table became the F numbers; None for plain numbers without names.
        groups: int64 (N,); `split` keeps rows of one group together. None where all are on their own.
        parts: int64 (N,), each a position among `PARTS`, where the data says itself what it is for.

    Raises:
        DataError: If these do not fit together.

    Example:
        >>> Table(torch.eye(3), torch.tensor([0, 1, 1]), ("cat", "dog"), "three rows")
        Table('three rows', 3 rows x 3, 2 classes)
    """

    kind: ClassVar[InputKind] = InputKind.ROWS
    features: Tensor | StoredArray
    labels: Tensor
    classes: tuple[str, ...]
    name: str
    schema: TableSchema | None = None
    groups: Tensor | None = None
    parts: Tensor | None = None

    def __post_init__(self) -> None:
        _check_tensors(self.name, features=self.features, labels=self.labels)
        if self.features.dtype != torch.float32 or self.features.ndim != 2:
            raise DataError(f"{self.name}: features must be float32 (N, F), got {_describe(self.features)}")
        _check_finite(self.name, "features", self.features)
        if self.schema is not None and self.schema.num_features != self.features.shape[1]:
            raise DataError(
                f"{self.name}: a schema of {self.schema.num_features} features for {self.features.shape[1]}"
            )
        _check_labels(self.name, len(self.features), self.labels, self.classes)
        _check_memberships(self)

    @property
    def inputs(self) -> Tensor | StoredArray:
        """What a network is fed from, as in a Dataset: the features (N, F)."""
        return self.features

    def __repr__(self) -> str:
        width = self.features.shape[1]
        return f"Table({self.name!r}, {len(self)} rows x {width}, {len(self.classes)} classes)"

    def _inputs_at(self, index: Tensor) -> dict[str, Any]:
        return {"features": select_rows(self.features, index)}


@dataclass(frozen=True, eq=False)
class Texts(_Labelled):
    """Texts with labels, in memory.

    Args:
        texts: N of them, none empty.
        labels: int64 (N,), each a position among the classes.
        classes: The names of the classes, all different.
        name: Name of the data, for messages.
        column: The name of the column that they were in, where they came in a table.
        groups: int64 (N,); `split` keeps texts of one group together. None where all are on their own.
        parts: int64 (N,), each a position among `PARTS`, where the data says itself what it is for.

    Raises:
        DataError: If these do not fit together.

    Example:
        >>> data = Texts(("hello", "bye", "so long"), torch.tensor([0, 1, 1]), ("greeting", "end"), "talk")
        >>> data
        Texts('talk', 3 texts, 2 classes)
        >>> data.only(["end"]).texts
        ('bye', 'so long')
    """

    kind: ClassVar[InputKind] = InputKind.TEXTS
    texts: tuple[str, ...]
    labels: Tensor
    classes: tuple[str, ...]
    name: str
    column: str | None = None
    groups: Tensor | None = None
    parts: Tensor | None = None

    def __post_init__(self) -> None:
        if isinstance(self.texts, str):
            raise InputError(f"{self.name}: texts must be several, got one text")
        object.__setattr__(self, "texts", tuple(self.texts))
        _check_tensors(self.name, labels=self.labels)
        for position, text in enumerate(self.texts):
            if not isinstance(text, str):
                raise InputError(f"{self.name}: texts[{position}] must be a text, got {type(text).__name__}")
            if not text.strip():
                raise DataError(f"{self.name}: texts[{position}] is empty")
        _check_labels(self.name, len(self.texts), self.labels, self.classes)
        _check_memberships(self)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The texts; `TextPreprocess.inputs_of` makes of them what a network is fed."""
        return self.texts

    def __repr__(self) -> str:
        return f"Texts({self.name!r}, {len(self)} texts, {len(self.classes)} classes)"

    def _inputs_at(self, index: Tensor) -> dict[str, Any]:
        positions = torch.arange(len(self))[index]
        return {"texts": tuple(self.texts[position] for position in positions.tolist())}


LabelledData = Dataset | Table | Texts
"""Images, rows or texts with labels: what is trained, calibrated and measured on."""


def _check_tensors(name: str, **fields: object) -> None:
    for field, value in fields.items():
        takes_stored = field != "labels"
        if not isinstance(value, Tensor) and not (takes_stored and isinstance(value, StoredArray)):
            raise InputError(f"{name}: {field} must be a tensor, got {type(value).__name__}")


def _check_finite(name: str, field: str, values: Tensor | StoredArray) -> None:
    if isinstance(values, StoredArray):
        is_finite = values.is_finite()
    else:
        is_finite = not values.is_floating_point() or bool(values.isfinite().all())
    if not is_finite:
        raise DataError(f"{name}: {field} must be finite, got NaN or infinity")


def _describe(tensor: Tensor | StoredArray) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def _check_labels(name: str, count: int, labels: Tensor, classes: tuple[str, ...]) -> None:
    if labels.dtype != torch.int64 or labels.ndim != 1:
        raise DataError(f"{name}: labels must be int64 (N,), got {_describe(labels)}")
    if len(labels) != count:
        raise DataError(f"{name}: {count} samples but {len(labels)} labels")
    if len(set(classes)) != len(classes):
        raise DataError(f"{name}: class names must differ, got {classes}")
    for each in classes:
        if isinstance(each, str) and each.encode("utf-8", "replace").decode() != each:
            raise DataError(f"{name}: class names must be texts that files can hold, got {each!r}")
    if count and not (int(labels.min()) >= 0 and int(labels.max()) < len(classes)):
        raise DataError(
            f"{name}: labels must be 0..{len(classes) - 1}, got {int(labels.min())}..{int(labels.max())}"
        )


def _check_memberships(data: _Labelled) -> None:
    for field, values in (("groups", data.groups), ("parts", data.parts)):
        if values is None:
            continue
        if not isinstance(values, Tensor) or values.dtype != torch.int64 or values.shape != data.labels.shape:
            raise DataError(f"{data.name}: {field} must be int64 ({len(data)},), got {describe(values)}")
    if data.parts is not None and len(data) and not 0 <= data.parts.min() <= data.parts.max() < len(PARTS):
        raise DataError(f"{data.name}: parts must be 0..{len(PARTS) - 1}, the positions of {PARTS}")


def _class_index(data: _Labelled, one: str | int) -> int:
    if isinstance(one, str) and one in data.classes:
        return data.classes.index(one)
    if isinstance(one, int) and 0 <= one < len(data.classes):
        return one
    raise InputError(f"{data.name} has no class {one!r}; its classes: {', '.join(data.classes)}")
