"""Sources of texts: in memory, a .txt file with a text a line, a folder of .txt files with a text each."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from nescio.data._encodings import decode, looks_binary
from nescio.data._folders import files_in, holds_only, state_of
from nescio.data._pictures import SUFFIXES as PICTURES
from nescio.data._values import Text
from nescio.data.dataset import Texts
from nescio.data.preprocess import Preprocess
from nescio.data.sources._base import Input, Labels, Place, Source, printable
from nescio.data.sources._class_folders import ClassFolders
from nescio.errors import DataError, NescioWarning

SUFFIXES = (".txt",)
LOOKED_AT = 512  # bytes


class TextSource(Source):
    """Texts in memory.

    Args:
        texts: The texts.
        name: Inputs are called name:1, name:2 and so on; without a name 1, 2 and so on.
        labels: What they are, where that is known.
        column: The name of the column that they were in, where they came in a table.

    Example:
        >>> [one.value.content for one in TextSource(["hello", "bye"]).read([1])]
        ['bye']
    """

    about: ClassVar[str] = "texts"
    _names: tuple[str, ...] = ()

    def __init__(
        self,
        texts: Sequence[str],
        name: str = "",
        labels: Labels | None = None,
        column: str | None = None,
    ) -> None:
        self.name = name
        self._contents = tuple(texts)
        self._labels = labels
        self._column = column

    @classmethod
    def named(cls, text: str, name: str) -> TextSource:
        """One text under a name of its own."""
        source = cls([text], name)
        source._names = (name,)
        return source

    @classmethod
    def of(cls, data: Texts) -> TextSource:
        """A data set of texts as a source."""
        return cls(data.texts, data.name, Labels(data.labels, data.classes), data.column)

    def __len__(self) -> int:
        return len(self._contents)

    def read(self, indices: Sequence[int]) -> list[Input]:
        """The texts at these positions."""
        found = []
        for index in indices:
            name = self._names[index] if self._names else self._numbered(index)
            found.append(Input(name, Text(self._contents[index], name)))
        return found

    def _numbered(self, index: int) -> str:
        return f"{self.name}:{index + 1}" if self.name else str(index + 1)

    def fingerprint(self) -> str:
        """The digest of all texts."""
        found = hashlib.sha256()
        for text in self._contents:
            content = text.encode("utf-8", "surrogatepass")
            found.update(f"{len(content)}\n".encode() + content)
        return found.hexdigest()

    @property
    def labels(self) -> Labels | None:
        """As they were given."""
        return self._labels

    def labelled(self, preprocess: Preprocess | None = None) -> Texts:
        """The texts themselves."""
        if self._labels is None:
            raise DataError(f"{self.name} has no labels; {self.about} have none")
        return Texts(self._contents, self._labels.indices, self._labels.classes, self.name, self._column)


class TextFile(TextSource):
    """A .txt file with a text a line; blank lines are passed over.

    A folder of .txt files has a text in each of them instead.
    """

    kind: ClassVar[str] = "text file"
    about: ClassVar[str] = ".txt files"

    def __init__(self, place: Place, texts: Sequence[str]) -> None:
        super().__init__(texts, printable(place.name))
        self._place = place

    @classmethod
    def recognises(cls, place: Place) -> bool:
        """Files that end in .txt, unless their content is no text: a picture may be called so."""
        return place.is_file() and place.suffix in SUFFIXES and not looks_binary(_first_bytes(place))

    @classmethod
    def open(cls, place: Place, **_: Any) -> TextFile:
        """Read all of it."""
        lines = decode(place.read_bytes(), place.short_name).splitlines()
        texts = [line.strip() for line in lines if line.strip()]
        if not texts:
            raise DataError(f"{place.short_name} is empty, where a text a line was expected")
        return cls(place, texts)

    def fingerprint(self) -> str:
        """The digest of the file."""
        return self._place.digest()


def _first_bytes(place: Place) -> bytes:
    try:
        with place.open_file() as file:
            return file.read(LOOKED_AT)
    except OSError:
        return b""  # what is wrong is said when it is read


class TextFolder(Source):
    """All .txt files in a folder, however deep, with a text each.

    Where every class has a sub-folder, those are the labels. Above them there may be sub-folders that say
    what the texts are for: train, val and test.

    Args:
        place: Where the folder is; the names of the inputs begin with its name.
        strict: Refuse to train on a folder with texts that are empty or can't be read. Otherwise one warning
            counts and names them, and they are passed over.
        split: Which of the sub-folders that say what the texts are for to take: "train", "validation" or
            "test". Default: all of them; `split` tells them apart.
    """

    kind: ClassVar[str] = "texts"
    about: ClassVar[str] = "folders without one sub-folder a class"
    options: ClassVar[tuple[str, ...]] = ("split", "strict")

    def __init__(self, place: Place, strict: bool = False, split: str | None = None) -> None:
        folder = place.path
        self.name = folder.resolve().name
        self._given = Path(place.name)
        self._folder = folder
        self._split = split
        self._strict = strict
        self._files = [file for file in files_in(folder) if file.suffix.lower() in SUFFIXES]
        self._class_folders = ClassFolders(folder, self._files)
        if split is not None:
            self._files = self._class_folders.of_part(self._files, split)

    @classmethod
    def recognises(cls, place: Place) -> bool:
        """Folders with .txt files and no pictures."""
        return place.is_folder() and holds_only(place.path, SUFFIXES, PICTURES)

    @classmethod
    def open(cls, place: Place, *, split: str | None = None, strict: bool = False, **_: Any) -> TextFolder:
        """List its files; none is read yet."""
        return cls(place, strict, split)

    def __len__(self) -> int:
        return len(self._files)

    def read(self, indices: Sequence[int]) -> list[Input]:
        """The texts at these positions, sorted by the names of their files."""
        found = []
        for index in indices:
            file = self._files[index]
            name = printable(str(self._given / file))
            place = Place(str(file), folder=self._folder)
            try:
                text = decode(place.read_bytes(), place.short_name).strip()
            except DataError as error:
                found.append(Input(name, None, str(error)))
            else:
                found.append(Input(name, Text(text, place.short_name)))
        return found

    def fingerprint(self) -> str:
        """The digest of all names, sizes and times of change."""
        found = hashlib.sha256()
        for file in self._files:
            state = state_of(self._folder / file)
            found.update(os.fsencode(f"{file.as_posix()}\0{state.st_size}\0{state.st_mtime_ns}\n"))
        return found.hexdigest()

    @property
    def labels(self) -> Labels | None:
        """By the sub-folder that each file is in; None where one is in none."""
        return self._class_folders.labels_of(self._files)

    def labelled(self, preprocess: Preprocess | None = None) -> Texts:
        """All texts; those that are empty or can't be read are passed over with a warning, or refused."""
        labels = self.labels
        if labels is None:
            raise DataError(f"{self._folder} needs two or more class folders, and every text in one of them")
        texts = []
        kept = []
        reasons = []
        for index, one in enumerate(self.read(range(len(self)))):
            if isinstance(one.value, Text) and one.value.content:
                texts.append(one.value.content)
                kept.append(index)
            else:
                reasons.append(one.error or f"{one.name} is empty")
        self._tell_of(reasons)
        indices = labels.indices[kept]
        present = set(indices.tolist())
        for label, name in enumerate(labels.classes):
            if label not in present and self._split is None:
                raise DataError(f"class folder {name} in {self._folder} holds no text")
        parts = self._class_folders.parts_of([self._files[index] for index in kept])
        return Texts(tuple(texts), indices, labels.classes, self.name, parts=parts)

    def _tell_of(self, reasons: list[str]) -> None:
        if not reasons:
            return
        counted = f"{len(reasons)} of {len(self)} texts in {self._folder} are empty or can't be read"
        if self._strict:
            raise DataError(f"{counted}; the first: {reasons[0]}")
        warnings.warn(f"{counted} and are passed over; the first: {reasons[0]}", NescioWarning, stacklevel=3)
