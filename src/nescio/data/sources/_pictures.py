"""PictureFolder and PictureFile: pictures on the disk; a folder with one sub-folder a class has labels."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from nescio._checks import require_whole
from nescio.data._pictures import SUFFIXES, Header
from nescio.data._values import Picture
from nescio.data.dataset import Dataset
from nescio.data.preprocess import Preprocess
from nescio.data.sources._base import Input, Labels, Place, Source, printable
from nescio.errors import DataError, InputError, NescioWarning

LARGEST_OWN_SIZE = 64
USUAL_SIZE = (32, 32)
SYSTEM_FILES = ("thumbs.db", "desktop.ini")


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


class PictureFolder(Source):
    """All pictures in a folder, however deep: PNG, JPEG, BMP or WebP by their names, and not hidden.

    Where every class has a sub-folder, those are the labels.

    Args:
        place: Where the folder is; the names of the inputs begin with its name.
        size: Size that every picture is stretched to for training: (height, width), or one number for a
            square. Default: the pictures' own size if they share one of at most 64 pixels a side, else
            32 x 32.
        strict: Refuse to train on a folder with files that can't be read as pictures. Otherwise one warning
            counts and names them, and they are passed over.
    """

    kind: ClassVar[str] = "pictures"
    about: ClassVar[str] = "folders without one sub-folder a class"
    options: ClassVar[tuple[str, ...]] = ("size", "strict")

    def __init__(self, place: Place, size: int | tuple[int, int] | None = None, strict: bool = False) -> None:
        folder = place.path
        self.name = folder.resolve().name
        self._given = Path(place.name)
        self._folder = folder
        self._size = _checked_size(size)
        self._strict = strict
        self._files = _files_in(folder)
        self._pictures = [file for file in self._files if file.suffix.lower() in SUFFIXES]

    @classmethod
    def recognises(cls, place: Place) -> bool:
        """Folders."""
        return place.is_folder()

    @classmethod
    def open(
        cls, place: Place, *, size: int | tuple[int, int] | None = None, strict: bool = False, **_: Any
    ) -> PictureFolder:
        """List its files; none is read yet."""
        return cls(place, size, strict)

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
            state = (self._folder / file).stat()
            found.update(os.fsencode(f"{file.as_posix()}\0{state.st_size}\0{state.st_mtime_ns}\n"))
        return found.hexdigest()

    @property
    def labels(self) -> Labels | None:
        """By the sub-folder that each picture is in; None where one is in none, or there are not two."""
        classes = _class_folders(self._folder)
        if len(classes) < 2:
            return None
        positions = []
        for file in self._pictures:
            if len(file.parts) < 2:
                return None
            positions.append(classes.index(file.parts[0]))
        return Labels(torch.tensor(positions, dtype=torch.int64), tuple(classes))

    def labelled(self, preprocess: Preprocess | None = None) -> Dataset:
        """Images of every sub-folder; what is no picture is passed over with a warning, or refused."""
        classes = _class_folders(self._folder)
        if len(classes) < 2:
            found = f"only {classes[0]}" if classes else "none"
            raise DataError(f"{self._folder} needs two or more class folders, got {found}")
        files = self._files_below(classes)
        unreadable: dict[Path, str] = {}
        pictures = self._named_as_pictures(files, unreadable)
        if preprocess is None:
            headers = self._headers(pictures, unreadable)
            pictures = list(headers)
            form: Sequence[int] = _common_form(headers.values(), self._size)
        else:
            form = preprocess.input_shape
            if len(form) != 3:
                raise DataError(f"the model takes rows of numbers, {self._folder} is a folder of pictures")
        images, read = self._pixels(pictures, form, unreadable)
        self._tell_of(unreadable, len(files))
        labels = [classes.index(file.parts[0]) for file in read]
        present = set(labels)
        for label, name in enumerate(classes):
            if label not in present:
                raise DataError(f"class folder {name} in {self._folder} holds no readable picture")
        return Dataset(images, torch.tensor(labels), tuple(classes), self.name)

    def _files_below(self, classes: Sequence[str]) -> list[Path]:
        files = []
        for file in self._files:
            if len(file.parts) > 1 and file.parts[0] in classes:
                files.append(file)
        return files

    def _named_as_pictures(self, files: Iterable[Path], unreadable: dict[Path, str]) -> list[Path]:
        named = []
        for file in files:
            if file.suffix.lower() in SUFFIXES:
                named.append(file)
            else:
                unreadable[file] = f"{file.name} is named as none of {', '.join(SUFFIXES)}"
        return named

    def _headers(self, files: Iterable[Path], unreadable: dict[Path, str]) -> dict[Path, Header]:
        """Of all that begin like pictures; the rest joins the unreadable."""
        headers = {}
        for file in files:
            try:
                headers[file] = Picture(self._folder / file, file.name).header()
            except DataError as error:
                unreadable[file] = str(error)
        return headers

    def _pixels(
        self, files: list[Path], form: Sequence[int], unreadable: dict[Path, str]
    ) -> tuple[Tensor, list[Path]]:
        """Images uint8 (N, *form) and the N files they are of; damaged ones join the unreadable."""
        channels, height, width = form
        images = torch.empty((len(files), channels, height, width), dtype=torch.uint8)
        read: list[Path] = []
        for file in files:
            try:
                pixels = Picture(self._folder / file, file.name).pixels(channels, (height, width))
            except DataError as error:
                unreadable[file] = str(error)
                continue
            images[len(read)] = pixels
            read.append(file)
        return images[: len(read)], read

    def _tell_of(self, unreadable: Mapping[Path, str], count: int) -> None:
        if not unreadable:
            return
        listed = []
        for file, reason in sorted(unreadable.items()):
            listed.append(f"{file.parent.name}/{file.name} ({reason})")
        more = f" and {len(listed) - 5} more" if len(listed) > 5 else ""
        message = f"{len(listed)} of {count} files can't be read as pictures: {', '.join(listed[:5])}{more}"
        if self._strict:
            raise DataError(message)
        warnings.warn(f"{message}; they are passed over", NescioWarning, stacklevel=3)


def _files_in(folder: Path) -> list[Path]:
    """All files, relative to the folder, but hidden ones and what operating systems leave behind."""
    files = []
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        is_hidden = any(part.startswith(".") for part in inside.parts)
        if path.is_file() and not is_hidden and path.name.lower() not in SYSTEM_FILES:
            files.append(inside)
    return sorted(files)


def _class_folders(folder: Path) -> list[str]:
    names = []
    for path in folder.iterdir():
        if path.is_dir() and not path.name.startswith("."):
            names.append(path.name)
    return sorted(names)


def _checked_size(size: object) -> tuple[int, int] | None:
    if size is None:
        return None
    sides = size if isinstance(size, tuple | list) else (size, size)
    if len(sides) != 2:
        raise InputError(f"size must be (height, width), got {size!r}")
    for name, side in zip(("height", "width"), sides, strict=True):
        require_whole(f"size: {name}", side, least=1)
    return sides[0], sides[1]


def _common_form(headers: Iterable[Header], size: tuple[int, int] | None) -> tuple[int, int, int]:
    """The number of channels that holds every picture, and the size asked for, shared or usual."""
    headers = list(headers)
    channels = 1 if all(header.grey for header in headers) else 3
    if size is None:
        sizes = {header.size for header in headers}
        size = sizes.pop() if len(sizes) == 1 else USUAL_SIZE
        if max(size) > LARGEST_OWN_SIZE:
            size = USUAL_SIZE
    return channels, *size
