"""Source: inputs in a fixed order that can be read by index, with labels where there are any."""

from __future__ import annotations

import hashlib
import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from nescio.data._schema import TableSchema
from nescio.data._stored import StoredArray, as_float32
from nescio.data._values import Text, Value
from nescio.data.dataset import Dataset, LabelledData, Table, Texts
from nescio.data.preprocess import Preprocess
from nescio.data.sources._preparing import Prepared, prepare_inputs
from nescio.errors import DataError

DIGEST_BYTES = 2**20  # of a file that are read at a time


class Input(NamedTuple):
    """One input of a source.

    Args:
        name: What tells it from the others: a file, or a file and the number of a row from 1 on.
        value: What was read; None where nothing could be.
        error: Why nothing could be read, on one line; None where something was.

    Example:
        >>> Input("cat.png", None, "cat.png is damaged").error
        'cat.png is damaged'
    """

    name: str
    value: Value | None
    error: str | None = None


class Labels(NamedTuple):
    """What each input of a source is.

    Args:
        indices: int64 (N,), each a position among the classes.
        classes: The names of the classes.

    Example:
        >>> Labels(torch.tensor([1, 0]), ("cat", "dog")).classes
        ('cat', 'dog')
    """

    indices: Tensor
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Place:
    """Where a source is: a path, the name of a data set, or the bytes of a file that came with a name.

    Args:
        name: The path or name, as it was given; the names of inputs begin with it.
        content: The bytes of the file, where they came over a network; the disk is not looked at then.
        folder: What a relative path is relative to; default the current folder.

    Example:
        >>> Place("letters.CSV", b"a,b").suffix
        '.csv'
        >>> Place("letters.csv", b"a,b").read_bytes()
        b'a,b'
    """

    name: str
    content: bytes | None = None
    folder: Path | None = None

    @property
    def path(self) -> Path:
        """Where it is on the disk."""
        return Path(self.name) if self.folder is None else self.folder / self.name

    @property
    def short_name(self) -> str:
        """The last part of the name, for messages."""
        return printable(Path(self.name).name or self.name)

    @property
    def suffix(self) -> str:
        """The ending of the name in small letters, with its dot."""
        return self.path.suffix.lower()

    def is_folder(self) -> bool:
        """Whether it is a folder on the disk."""
        return self.content is None and self.path.is_dir()

    def is_file(self) -> bool:
        """Whether it is a file, on the disk or as bytes."""
        return self.content is not None or self.path.is_file()

    def read_bytes(self) -> bytes:
        """All of the file.

        Raises:
            DataError: If it can't be read.
        """
        if self.content is not None:
            return self.content
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise DataError(f"{self.short_name} can't be read: {error.strerror or error}") from error

    def open_file(self) -> IO[bytes]:
        """The file, to read from."""
        return self.path.open("rb") if self.content is None else io.BytesIO(self.content)

    def digest(self) -> str:
        """SHA-256 of the file, which is read a part at a time."""
        found = hashlib.sha256()
        try:
            with self.open_file() as file:
                while part := file.read(DIGEST_BYTES):
                    found.update(part)
        except OSError as error:
            raise DataError(f"{self.short_name} can't be read: {error.strerror or error}") from error
        return found.hexdigest()


def printable(name: str) -> str:
    """A name that every file can hold: bytes of a file's name that are no UTF-8 are written as escapes."""
    return name.encode("utf-8", "backslashreplace").decode()


class Source(ABC):
    """Inputs in a fixed order.

    A subclass says which places it knows (`recognises`), opens them (`open`), and reads. It may have labels;
    then it can be trained on and evaluated with.

    Attributes:
        kind: What this kind of source is called in the registry.
        about: What it is, in the plural, for messages: "folders of pictures".
        options: Which options of `open_source` it takes; the others are refused.
        name: Name of this source.

    Example:
        >>> from nescio.data.sources import MemorySource
        >>> source = MemorySource(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "two rows")
        >>> len(source)
        2
        >>> source.read([1])
        [Input(name='two rows:2', value=tensor([3., 4.]), error=None)]
    """

    kind: ClassVar[str] = ""
    about: ClassVar[str] = "sources"
    options: ClassVar[tuple[str, ...]] = ()
    name: str

    @classmethod
    def recognises(cls, place: Place) -> bool:
        """Whether this kind of source is at the place, by a quick look at its name and what it is."""
        return False

    @classmethod
    def open(cls, place: Place, **options: Any) -> Source:
        """The source at a place.

        Args:
            place: One that `recognises` said yes to.
            options: The values that were given, by their names in `options`.

        Raises:
            DataError: If it can't be read at all.
        """
        raise DataError(f"{place.name} can't be opened: {cls.__name__} has no open")

    @abstractmethod
    def __len__(self) -> int:
        """How many inputs there are."""

    @abstractmethod
    def read(self, indices: Sequence[int]) -> list[Input]:
        """The inputs at these positions, in this order; one that can't be read has an error."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A text that is another one where anything about the inputs has changed."""

    @property
    def labels(self) -> Labels | None:
        """What each input is; None where that is not known.

        Raises:
            DataError: If there are labels, but not for every input.
        """
        return None

    def labelled(self, preprocess: Preprocess | None = None) -> LabelledData:
        """All inputs with their labels as tensors in memory, to train on or to evaluate with.

        Args:
            preprocess: Preprocessing of the model that they are for; None where one is to be trained on them.

        Returns:
            A Dataset of images, a Table of rows, or Texts.

        Raises:
            DataError: If there are no labels, or an input can't be read.
        """
        labels = self.labels
        if labels is None:
            raise DataError(f"{self.name} has no labels; {self.about} have none")
        texts = self._texts()
        if texts is not None:
            return Texts(texts, labels.indices, labels.classes, self.name)
        prepared = self.prepared(preprocess)
        if prepared.unreadable:
            name, reason = next(iter(prepared.unreadable.items()))
            raise DataError(f"{name}: {reason}")
        return as_data(self.name, prepared.inputs, labels)

    def prepared(self, preprocess: Preprocess | None = None) -> Prepared:
        """All inputs as a model takes them, labelled or not: many of them on the disk.

        Args:
            preprocess: Preprocessing of the model; None for inputs that are numbers already.

        Returns:
            The inputs that can be read, and what is wrong with the others.

        Raises:
            DataError: If none can be read, or there is no room on the disk for many.
        """
        return prepare_inputs(self, preprocess)

    def _texts(self) -> tuple[str, ...] | None:
        """All inputs where the first is a text, else None."""
        if len(self) == 0 or not isinstance(self.read([0])[0].value, Text):
            return None
        texts = []
        for one in self.read(range(len(self))):
            if not isinstance(one.value, Text):
                raise DataError(f"{one.name}: {one.error or 'a text was expected'}")
            texts.append(one.value.content)
        return tuple(texts)


def as_data(
    name: str,
    inputs: Tensor | StoredArray,
    labels: Labels,
    schema: TableSchema | None = None,
) -> Dataset | Table:
    """Images uint8 (N, C, H, W) or rows (N, F) with labels."""
    if inputs.ndim == 4:
        return Dataset(inputs, labels.indices, labels.classes, name)
    features = inputs
    if features.dtype != torch.float32:
        features = as_float32(features)
    return Table(features, labels.indices, labels.classes, name, schema)
