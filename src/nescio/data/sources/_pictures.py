"""PictureFolder and PictureFile: pictures on the disk; a folder with one sub-folder a class has labels."""

from __future__ import annotations

import hashlib
import os
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from nescio._checks import listed, require_whole
from nescio.data._decoding import PictureForm, decode_folder
from nescio.data._folders import files_in, state_of
from nescio.data._pictures import RESIZE_MODES, SUFFIXES, Header
from nescio.data._values import Picture
from nescio.data.dataset import Dataset
from nescio.data.preprocess import ImagePreprocess, Preprocess
from nescio.data.sources._base import Input, Labels, Place, Source, printable
from nescio.data.sources._class_folders import ClassFolders
from nescio.data.sources._preparing import Prepared
from nescio.data.splits import group_codes
from nescio.errors import DataError, InputError, NescioWarning

LARGEST_OWN_SIZE = 64
USUAL_SIZE = (32, 32)
SAMPLED_HEADERS = 1000  # of a large folder


@dataclass(frozen=True)
class HeaderSummary:
    """What the pictures of a folder are like, as their headers say; of a large folder, those of many of them.

    Args:
        count: How many pictures there are.
        smallest: (height, width) of the one with the fewest pixels.
        median: (height, width) of the one in the middle, by its pixels.
        largest: (height, width) of the one with the most pixels.
        channels: 1 where all are grey, else 3.
        has_one_size: Whether all are of the same size.
    """

    count: int
    smallest: tuple[int, int]
    median: tuple[int, int]
    largest: tuple[int, int]
    channels: int
    has_one_size: bool

    @classmethod
    def of(cls, count: int, headers: Sequence[Header]) -> HeaderSummary:
        """From the headers of some of so many pictures, one or more."""
        by_area = sorted((header.size for header in headers), key=lambda size: size[0] * size[1])
        return cls(
            count=count,
            smallest=by_area[0],
            median=by_area[len(by_area) // 2],
            largest=by_area[-1],
            channels=1 if all(header.grey for header in headers) else 3,
            has_one_size=len(set(by_area)) == 1,
        )

    def __str__(self) -> str:
        colour = "grey" if self.channels == 1 else "colour"
        if self.has_one_size:
            return f"{self.count:,} pictures of {_in_words(self.median)} pixels, {colour}"
        sizes = f"{_in_words(self.smallest)} to {_in_words(self.largest)} pixels"
        return f"{self.count:,} pictures of {sizes}, the median {_in_words(self.median)}, {colour}"


class PictureFile(Source):
    """One picture, of any file name: its content decides whether it is one."""

    about: ClassVar[str] = "single pictures"

    def __init__(self, place: Place) -> None:
        self.name = printable(place.name)
        self._place = place

    @classmethod
    def recognises(cls, place: Place) -> bool:
        """Every file; it is asked last."""
        return place.is_file()

    @classmethod
    def open(cls, place: Place, **_: Any) -> PictureFile:
        """Nothing is read yet."""
        return cls(place)

    def __len__(self) -> int:
        return 1

    def read(self, indices: Sequence[int]) -> list[Input]:
        """The picture, at every position that is asked for."""
        content = self._place.path if self._place.content is None else self._place.content
        picture = Input(self.name, Picture(content, self._place.short_name))
        return [picture] * len(indices)

    def fingerprint(self) -> str:
        """The digest of the file."""
        return self._place.digest()


class PictureSource(Source):
    """Pictures of any size, which are brought to one when they are trained on."""

    _size: tuple[int, int] | None
    _resize: str

    @abstractmethod
    def header_summary(self) -> HeaderSummary:
        """What the pictures are like, by the headers of some of them; none is decoded.

        Raises:
            DataError: If there is none that begins like a picture.
        """

    @abstractmethod
    def labelled(self, preprocess: Preprocess | None = None) -> Dataset:
        """All pictures with their labels.

        Args:
            preprocess: Preprocessing of the model that they are for; None where one is to be trained on them.

        Raises:
            DataError: If there are no labels, or pictures can't be read.
        """

    def _form_for(self, preprocess: Preprocess | None, headers: Callable[[], list[Header]]) -> PictureForm:
        """What a model takes; without one, channels that hold every picture, and the size to train on."""
        if preprocess is not None:
            if not isinstance(preprocess, ImagePreprocess):
                raise DataError(f"the model takes {preprocess.kind.value}, {self.name} holds pictures")
            channels, height, width = preprocess.input_shape
            return PictureForm(channels, (height, width), preprocess.resize)
        found = headers()
        channels = 1 if all(header.grey for header in found) else 3
        return PictureForm(channels, self._size or _usual_size(found), self._resize)


class PictureFolder(PictureSource):
    """All pictures in a folder, however deep: PNG, JPEG, BMP or WebP by their names, and not hidden.

    Where every class has a sub-folder, those are the labels. Above them there may be sub-folders that say
    what the pictures are for: train, val and test.

    Args:
        place: Where the folder is; the names of the inputs begin with its name.
        size: Size that every picture is brought to for training: (height, width), or one number for a
            square. Default: the pictures' own size if they share one of at most 64 pixels a side, else
            32 x 32.
        resize: How a picture is brought to that size: "stretch" it, "crop" the middle once the shorter side
            fits, or "pad" it with black once the longer side fits.
        group: Level of the sub-folders whose names are the groups that a split keeps together, from 1 on:
            with 2, photos/cat/garden/1.jpg is of the group garden. Default: every picture is on its own.
        split: Which of the sub-folders that say what the pictures are for to take: "train", "validation" or
            "test". Default: all of them; `split` tells them apart.
        strict: Refuse to train on a folder with files that can't be read as pictures. Otherwise one warning
            counts and names them, and they are passed over.
    """

    kind: ClassVar[str] = "pictures"
    about: ClassVar[str] = "folders without one sub-folder a class"
    options: ClassVar[tuple[str, ...]] = ("size", "resize", "group", "split", "strict")

    def __init__(
        self,
        place: Place,
        size: int | tuple[int, int] | None = None,
        resize: str = "stretch",
        group: int | None = None,
        split: str | None = None,
        strict: bool = False,
    ) -> None:
        if resize not in RESIZE_MODES:
            raise InputError(f"resize must be one of {', '.join(RESIZE_MODES)}, got {resize!r}")
        folder = place.path
        self.name = folder.resolve().name
        self._given = Path(place.name)
        self._folder = folder
        self._size = checked_size(size)
        self._resize = resize
        self._split = split
        self._strict = strict
        self._files = files_in(folder)
        self._class_folders = ClassFolders(folder, self._files)
        if split is not None:
            self._files = self._class_folders.of_part(self._files, split)
        self._pictures = [file for file in self._files if file.suffix.lower() in SUFFIXES]
        self._group = None if group is None else self._checked_group(group)

    @classmethod
    def recognises(cls, place: Place) -> bool:
        """Folders."""
        return place.is_folder()

    @classmethod
    def open(
        cls,
        place: Place,
        *,
        size: int | tuple[int, int] | None = None,
        resize: str = "stretch",
        group: str | int | None = None,
        split: str | None = None,
        strict: bool = False,
        **_: Any,
    ) -> PictureFolder:
        """List its files; none is read yet."""
        level = int(group) if isinstance(group, str) and group.isdecimal() else group
        return cls(place, size, resize, level, split, strict)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._pictures)

    def read(self, indices: Sequence[int]) -> list[Input]:
        """The pictures at these positions, sorted by their names."""
        found = []
        for index in indices:
            file = self._pictures[index]
            picture = Picture(self._folder / file, printable(file.name))
            found.append(Input(printable(str(self._given / file)), picture))
        return found

    def fingerprint(self) -> str:
        """The digest of all names, sizes and times of change."""
        found = hashlib.sha256()
        for file in self._pictures:
            state = state_of(self._folder / file)
            found.update(os.fsencode(f"{file.as_posix()}\0{state.st_size}\0{state.st_mtime_ns}\n"))
        return found.hexdigest()

    @property
    def labels(self) -> Labels | None:
        """By the sub-folder that each picture is in; None where one is in none."""
        return self._class_folders.labels_of(self._pictures)

    def _checked_group(self, level: object) -> int:
        require_whole("group: the level of sub-folders", level, least=1)
        assert isinstance(level, int)
        for file in self._pictures:
            if len(file.parts) <= level:
                raise DataError(f"group: {self._folder / file} does not lie {level} sub-folders deep")
        return level

    def _groups_of(self, pictures: Sequence[Path]) -> Tensor | None:
        if self._group is None:
            return None
        return group_codes(self.name, [file.parts[self._group - 1] for file in pictures], len(pictures))

    def header_summary(self) -> HeaderSummary:
        """What the pictures are like, by the headers of some of them; none is decoded.

        Raises:
            DataError: If there is none that begins like a picture.
        """
        headers = self._sampled_headers(self._pictures)
        if not headers:
            raise DataError(f"{self._folder} holds no readable picture")
        return HeaderSummary.of(len(self._pictures), headers)

    def _sampled_headers(self, pictures: Sequence[Path]) -> list[Header]:
        """Of all pictures, or of many spread evenly where those of many tell what training needs to know."""
        step = max(1, len(pictures) // SAMPLED_HEADERS)
        headers = self._headers(pictures[::step])
        # That all are grey or alike is only known of all: one that is not would lose its colours.
        is_certain = any(not one.grey for one in headers) and len({one.size for one in headers}) > 1
        if step > 1 and not is_certain:
            headers = self._headers(pictures)
        return headers

    def _headers(self, pictures: Iterable[Path]) -> list[Header]:
        """Of those that begin like pictures."""
        headers = []
        for file in pictures:
            with suppress(DataError):
                headers.append(Picture(self._folder / file, file.name).header())
        return headers

    def labelled(self, preprocess: Preprocess | None = None) -> Dataset:
        """Images of every sub-folder; what is no picture is passed over with a warning, or refused.

        Few are held in memory. Many are decoded once into a file in the cache, and read from there. Where the
        disk has no room for that, they are decoded each time they are needed.
        """
        if not self._class_folders.classes:
            raise DataError(f"{self._folder} needs two or more class folders, got none")
        files = [file for file in self._files if self._class_folders.has_class(file)]
        pictures = [file for file in files if file.suffix.lower() in SUFFIXES]
        form = self._form_for(preprocess, lambda: self._sampled_headers(pictures))
        decoded = decode_folder(self._folder, pictures, form, self._split or "")
        unreadable = {pictures[position]: reason for position, reason in decoded.unreadable.items()}
        for file in files:
            if file.suffix.lower() not in SUFFIXES:
                unreadable[file] = f"{file.name} is named as none of {', '.join(SUFFIXES)}"
        self._tell_of(unreadable, len(files))
        kept = [pictures[position] for position in decoded.kept.tolist()]
        labels = self._class_folders.labels_of(kept)
        assert labels is not None
        present = set(labels.indices.tolist())
        for label, name in enumerate(labels.classes):
            if label not in present and self._split is None:
                raise DataError(f"class folder {name} in {self._folder} holds no readable picture")
        return Dataset(
            decoded.images,
            labels.indices,
            labels.classes,
            self.name,
            form.resize,
            self._groups_of(kept),
            self._class_folders.parts_of(kept),
        )

    def prepared(self, preprocess: Preprocess | None = None) -> Prepared:
        """All pictures, in class folders or not; decoded in worker processes, many of them to the disk."""
        form = self._form_for(preprocess, lambda: self._sampled_headers(self._pictures))
        decoded = decode_folder(self._folder, self._pictures, form, f"{self._split or ''} all")
        if not len(decoded.images):
            found = list(decoded.unreadable.values())
            last = f"; the last: {found[-1]}" if found else ""
            raise DataError(f"{self._folder} holds no readable picture{last}")
        unreadable = {}
        for position, reason in decoded.unreadable.items():
            unreadable[printable(str(self._given / self._pictures[position]))] = reason
        return Prepared(decoded.images, decoded.kept, unreadable)

    def _tell_of(self, unreadable: Mapping[Path, str], count: int) -> None:
        if not unreadable:
            return
        names = []
        for file, reason in sorted(unreadable.items()):
            names.append(f"{file.parent.name}/{file.name} ({reason})")
        message = f"{len(names)} of {count} files can't be read as pictures: {listed(names)}"
        if self._strict:
            raise DataError(message)
        warnings.warn(f"{message}; they are passed over", NescioWarning, stacklevel=3)


def _in_words(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"


def checked_size(size: object) -> tuple[int, int] | None:
    """(height, width) of a size or of the side of a square; None stays."""
    if size is None:
        return None
    sides = size if isinstance(size, tuple | list) else (size, size)
    if len(sides) != 2:
        raise InputError(f"size must be (height, width), got {size!r}")
    for name, side in zip(("height", "width"), sides, strict=True):
        require_whole(f"size: {name}", side, least=1)
    return sides[0], sides[1]


def _usual_size(headers: Sequence[Header]) -> tuple[int, int]:
    """The size that all pictures share if it is small, else the usual one."""
    sizes = {header.size for header in headers}
    if len(sizes) == 1:
        (shared,) = sizes
        if max(shared) <= LARGEST_OWN_SIZE:
            return shared
    return USUAL_SIZE
