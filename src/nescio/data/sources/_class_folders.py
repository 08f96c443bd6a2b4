"""What the sub-folders of a folder say of its files: their classes, and what they are for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from nescio.data._folders import class_folders
from nescio.data.dataset import PARTS
from nescio.data.sources._base import Labels, printable
from nescio.data.splits import part_of
from nescio.errors import DataError, InputError


class ClassFolders:
    """A folder with one sub-folder a class, or with such folders below train, val and test.

    Args:
        folder: The folder.
        files: The files in it, relative to it.

    Attributes:
        parts: The sub-folders that say what their files are for, with their positions among PARTS; none where
            the first sub-folder is the class.
    """

    def __init__(self, folder: Path, files: Sequence[Path]) -> None:
        self._folder = folder
        self.parts = _part_folders(files)
        self._level = 1 if self.parts else 0  # where in its path the class of a file is

    @property
    def classes(self) -> list[str]:
        """The names of the class folders, also of those that hold no file."""
        if not self.parts:
            return class_folders(self._folder)
        classes: set[str] = set()
        for part in self.parts:
            classes.update(class_folders(self._folder / part))
        return sorted(classes)

    def has_class(self, file: Path) -> bool:
        """Whether a file is in a class folder."""
        return len(file.parts) > self._level + 1

    def labels_of(self, files: Sequence[Path]) -> Labels | None:
        """By the class folder that each is in; None where one is in none."""
        classes = self.classes
        if not classes or not all(map(self.has_class, files)):
            return None
        position = {name: index for index, name in enumerate(classes)}
        indices = [position[file.parts[self._level]] for file in files]
        return Labels(torch.tensor(indices, dtype=torch.int64), tuple(map(printable, classes)))

    def parts_of(self, files: Sequence[Path]) -> Tensor | None:
        """What each is for (N,), as a position among PARTS; None where the folders do not say it."""
        if not self.parts:
            return None
        return torch.tensor([self.parts[file.parts[0]] for file in files], dtype=torch.int64)

    def of_part(self, files: Sequence[Path], split: str) -> list[Path]:
        """The files that are for something.

        Raises:
            InputError: If it is no name of a part.
            DataError: If there is no folder for it.
        """
        wanted = part_of(split)
        if wanted is None:
            raise InputError(f"split must be one of {', '.join(PARTS)}, got {split!r}")
        if wanted not in self.parts.values():
            found = ", ".join(self.parts) or "none"
            raise DataError(f"{self._folder} has no folder {PARTS[wanted]} of class folders; it has {found}")
        return [file for file in files if self.parts.get(file.parts[0]) == wanted]


def _part_folders(files: Sequence[Path]) -> dict[str, int]:
    """Classes may be called train and test too: below the one for training there must be class folders."""
    parts: dict[str, int] = {}
    train_classes = set()
    for file in files:
        if len(file.parts) < 2:
            continue
        part = part_of(file.parts[0])
        if part is None:
            return {}
        parts[file.parts[0]] = part
        if part == PARTS.index("train"):
            if len(file.parts) < 3:
                return {}
            train_classes.add(file.parts[1])
    if len(set(parts.values())) < 2 or len(train_classes) < 2:
        return {}
    return parts
