"""MemorySource: tensors in memory or arrays on the disk, and the data sets of the catalog."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from PIL import Image
from torch import Tensor

from nescio._files import digest
from nescio.data._catalog import in_catalog
from nescio.data._loading import load
from nescio.data._schema import TableSchema
from nescio.data._stored import StoredArray
from nescio.data._values import Picture
from nescio.data.dataset import Dataset, LabelledData, Table, Texts
from nescio.data.preprocess import ImagePreprocess, Preprocess
from nescio.data.sources._base import Input, Labels, Place, Source, as_data
from nescio.data.sources._preparing import Prepared
from nescio.data.sources._texts import TextSource
from nescio.errors import NescioWarning


class MemorySource(Source):
    """Inputs that are tensors already: those in memory are the fast case.

    Args:
        inputs: (N, ...), images or rows, in memory or on the disk.
        name: Inputs are called name:1, name:2 and so on; without a name 1, 2 and so on.
        labels: What they are, where that is known.
        schema: How the columns of a table became the numbers of rows, see Table.

    Example:
        >>> import torch
        >>> [one.name for one in MemorySource(torch.zeros(2, 3)).read([0, 1])]
        ['1', '2']
    """

    about: ClassVar[str] = "tensors"

    def __init__(
        self,
        inputs: Tensor | StoredArray,
        name: str = "",
        labels: Labels | None = None,
        schema: TableSchema | None = None,
    ) -> None:
        self.inputs = inputs
        self.name = name
        self._labels = labels
        self._schema = schema

    @classmethod
    def of(cls, data: Dataset | Table) -> MemorySource:
        """A Dataset or a Table as a source."""
        labels = Labels(data.labels, data.classes)
        if isinstance(data, Table):
            return cls(data.inputs, data.name, labels, data.schema)
        return cls(data.inputs, data.name, labels)

    def __len__(self) -> int:
        return len(self.inputs)

    def read(self, indices: Sequence[int]) -> list[Input]:
        """The inputs at these positions."""
        prefix = f"{self.name}:" if self.name else ""
        return [Input(f"{prefix}{index + 1}", self.inputs[index]) for index in indices]

    def fingerprint(self) -> str:
        """The digest of all values."""
        return digest({"inputs": self.inputs.cpu() if isinstance(self.inputs, Tensor) else self.inputs})

    @property
    def labels(self) -> Labels | None:
        """As they were given."""
        return self._labels

    def prepared(self, preprocess: Preprocess | None = None) -> Prepared:
        """The tensors themselves where they have the shape that the model takes: nothing is copied.

        Images of another size are brought to that of the model, as pictures are.
        """
        if preprocess is None or tuple(self.inputs.shape[1:]) == preprocess.input_shape:
            return Prepared(self.inputs, torch.arange(len(self.inputs)), {})
        is_images = self.inputs.dtype == torch.uint8 and self.inputs.ndim == 4
        if is_images and self.inputs.shape[1] in (1, 3) and isinstance(preprocess, ImagePreprocess):
            return _ImagesOfAnotherSize(self.inputs, self.name).prepared(preprocess)
        return super().prepared(preprocess)

    def labelled(self, preprocess: Preprocess | None = None) -> LabelledData:
        """The tensors themselves: nothing is copied."""
        if self._labels is None:
            return super().labelled(preprocess)  # which says that there are none
        return as_data(self.name, self.inputs, self._labels, self._schema)


class _ImagesOfAnotherSize(Source):
    """Images that are brought to the size of a model as pictures of files are."""

    def __init__(self, images: Tensor | StoredArray, name: str) -> None:
        self.name = name
        self._images = images

    def __len__(self) -> int:
        return len(self._images)

    def read(self, indices: Sequence[int]) -> list[Input]:
        """The images as pictures."""
        found = []
        for index, image in zip(indices, self._images[list(indices)], strict=True):
            name = f"{self.name}:{index + 1}"
            found.append(Input(name, Picture(_as_png(image), name)))
        return found

    def fingerprint(self) -> str:
        """The digest of all values."""
        return digest({"images": self._images})


def _as_png(image: Tensor) -> bytes:
    """An image (C, H, W) as a file, not compressed: the one way to bring pictures to a size reads files."""
    pixels = image.permute(1, 2, 0).numpy()
    file = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(file, "PNG", compress_level=0)
    return file.getvalue()


class CatalogSource(MemorySource):
    """A data set of the catalog, by its name."""

    kind: ClassVar[str] = "catalog"
    about: ClassVar[str] = "data sets of the catalog"
    options: ClassVar[tuple[str, ...]] = ("split", "data_dir")

    @classmethod
    def recognises(cls, place: Place) -> bool:
        """Whether the catalog has this name, which wins over a folder of that name."""
        return place.content is None and in_catalog(place.name)

    @classmethod
    def open(
        cls, place: Place, *, split: str = "test", data_dir: str | Path | None = None, **_: Any
    ) -> MemorySource | TextSource:
        """Load it, fetching it first where it is not here."""
        if place.is_file() or place.is_folder():
            warnings.warn(
                f"{place.name} is the data set of that name, not what lies here under it: write "
                f"./{place.name} for that",
                NescioWarning,
                stacklevel=2,
            )
        data: LabelledData = load(place.name, split, data_dir=data_dir)
        return TextSource.of(data) if isinstance(data, Texts) else cls.of(data)
