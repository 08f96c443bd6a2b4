"""What is in a folder: its files, and its sub-folders that are classes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

SYSTEM_FILES = ("thumbs.db", "desktop.ini")


def files_in(folder: Path) -> list[Path]:
    """All files, relative to the folder, but hidden ones and what operating systems leave behind."""
    return sorted(_walk(folder))


def class_folders(folder: Path) -> list[str]:
    """The names of the sub-folders, but hidden ones."""
    names = []
    for path in folder.iterdir():
        if path.is_dir() and not path.name.startswith("."):
            names.append(path.name)
    return sorted(names)


def holds_only(folder: Path, wanted: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Whether there are files with a wanted ending, and none with one of the others."""
    is_wanted_there = False
    for file in _walk(folder):
        suffix = file.suffix.lower()
        if suffix in others:
            return False
        is_wanted_there = is_wanted_there or suffix in wanted
    return is_wanted_there


def _walk(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            if not name.startswith(".") and name.lower() not in SYSTEM_FILES:
                yield Path(place, name).relative_to(folder)
