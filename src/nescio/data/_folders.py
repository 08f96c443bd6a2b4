"""What is in a folder: its files, and its sub-folders that are classes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from nescio.errors import DataError

SYSTEM_FILES = ("thumbs.db", "desktop.ini")
# What the folder of a training holds, from its first checkpoint on.
RUN_SETTINGS = "settings.json"
RUN_CHECKPOINT = "checkpoint.safetensors"
RUN_MODEL = "model.safetensors"  # once it has ended


def files_in(folder: Path) -> list[Path]:
    """All files, relative to the folder.

    Not hidden ones, nor what operating systems and trainings leave behind.
    """
    return sorted(_walk(folder))


def class_folders(folder: Path) -> list[str]:
    """The names of the sub-folders, but hidden ones and those of trainings."""
    names = []
    for path in folder.iterdir():
        if path.is_dir() and not path.name.startswith(".") and not _is_run(path):
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


def state_of(path: Path) -> os.stat_result:
    """The size and the times of a file; of a link that leads nowhere, its own."""
    try:
        return path.stat()
    except OSError:
        return path.lstat()


def _walk(folder: Path) -> Iterator[Path]:
    """Also what is in linked folders, but for those that lead back to where they are."""
    # For each folder that is still to come, itself and the folders that it is in.
    above = {str(folder): {os.path.realpath(folder)}}
    for place, folders, names in os.walk(folder, onerror=_refuse, followlinks=True):
        around = above.pop(place)
        found = []
        for name in sorted(folders):
            if not name.startswith(".") and not _is_run(Path(place, name)):
                found.append(name)
        folders.clear()
        for name in found:
            target = os.path.realpath(os.path.join(place, name))
            if target not in around:
                above[os.path.join(place, name)] = {*around, target}
                folders.append(name)
        for name in names:
            if not name.startswith(".") and name.lower() not in SYSTEM_FILES:
                yield Path(place, name).relative_to(folder)


def _is_run(folder: Path) -> bool:
    """Whether it is the folder of a training: the pictures of its report are no data."""
    return (folder / RUN_SETTINGS).is_file() and any(
        (folder / name).is_file() for name in (RUN_CHECKPOINT, RUN_MODEL)
    )


def _refuse(error: OSError) -> None:
    raise DataError(f"{error.filename} can't be read: {error.strerror or error}") from error
