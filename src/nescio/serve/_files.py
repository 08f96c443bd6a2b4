"""The model files of a service: whether they have changed, and copies that do not."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from nescio.errors import ModelFileError

Stamp = tuple[int, int, int]


class ModelFiles:
    """Files by name, and how they were when they were last read."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self.paths = paths
        self._read = self._stamps()
        self._last_seen = self._read

    def mark_as_read(self) -> None:
        """Before they are read: a change while they are is seen afterwards."""
        self._read = self._stamps()
        self._last_seen = self._read

    def have_changed(self) -> bool:
        """Whether they are other than those that were read, and the same as when this was last asked.

        So that a file that is still being written is not read, and one that is missing for a moment, while
        another takes its place, is not reported.
        """
        stamps = self._stamps()
        is_steady = stamps == self._last_seen
        self._last_seen = stamps
        return is_steady and stamps != self._read

    def copy_to(self, folder: Path) -> dict[str, Path]:
        """Copies in a folder that is made for them. Raises ModelFileError where one is missing, OSError."""
        folder.mkdir()
        copies = {}
        for number, (name, path) in enumerate(self.paths.items()):
            copies[name] = folder / f"{number}{path.suffix}"
            try:
                shutil.copyfile(path, copies[name])
            except FileNotFoundError as error:
                raise ModelFileError(f"there is no file {path}") from error
        return copies

    def in_words(self, error: Exception, copies: Mapping[str, Path]) -> str:
        """The message of an error about a copy, as one about the file that it is of."""
        message = str(error)
        for name, copy in copies.items():
            message = message.replace(str(copy), str(self.paths[name]))
        return message

    def _stamps(self) -> dict[str, Stamp | None]:
        stamps: dict[str, Stamp | None] = {}
        for name, path in self.paths.items():
            try:
                status = path.stat()
            except OSError:
                stamps[name] = None
            else:
                stamps[name] = (status.st_ino, status.st_size, status.st_mtime_ns)
        return stamps
