"""What is fetched: some files, known by their hashes, and where they can come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nescio._fetch.downloads import Origin
    from nescio._fetch.unpack import Unpack


@dataclass(frozen=True)
class File:
    """One file: its canonical name, its content's SHA-256 and its size in bytes."""

    name: str
    sha256: str
    size: int


class FileSet(ABC):
    """Files that are fetched together, and kept in a folder of the cache.

    Attributes:
        name: Name of the set, and of its folder in the cache.
        about: What it is, in a few words.
        licence: Licence of the files.
        origins: Where the files can come from, in the order in which they are tried.
        archives: Archives that a folder of the user's may hold instead, by name, and how to unpack them.
        subfolders: Subfolders of a folder of the user's, where the files may be.
        hint: What else can be done where no origin delivers.
    """

    name: str
    about: str
    licence: str
    origins: tuple[Origin, ...]
    archives: Mapping[str, Unpack]
    subfolders: tuple[str, ...]
    hint: str

    @property
    @abstractmethod
    def files(self) -> tuple[File, ...]:
        """All files, each once."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Bytes of each file, by its name."""
        return {file.name: file.size for file in self.files}

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return sum(self.sizes.values())
