"""Many pictures: decoded in worker processes, and kept as one file of bytes where the disk has room for it.

A worker that is started anew does not wait for torch: what it imports are Pillow and numpy.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import PIL
import torch
from joblib import Parallel, cpu_count, delayed
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from nescio._fetch.progress import say
from nescio._fetch.store import cache_dir
from nescio._files import write_atomically
from nescio.data._folders import state_of
from nescio.data._npy_rows import RowReader
from nescio.data._pictures import Pixels, decode_some
from nescio.data._row_writer import (
    DiskFullError,
    StoredArrayWriter,
    free_bytes,
    no_room,
    notes_path,
    read_notes,
)
from nescio.data._stored import StoredArray, is_resident, stored_once
from nescio.errors import DataError, NescioWarning

FEW = 64  # pictures are decoded in this process: to start others takes longer
TASK = 16  # pictures that a worker gets at a time
BLOCK_BYTES = 64 * 2**20  # decoded pictures that are on their way at a time
SPARE_BYTES = 256 * 2**20  # that a cache leaves free on the disk
CHECKED_SIZE = (8, 8)  # what pictures are decoded to where only their damage is looked for


class PictureForm(NamedTuple):
    """What every picture is brought to.

    size: (height, width). resize: how, see `read_picture`.
    """

    channels: int
    size: tuple[int, int]
    resize: str = "stretch"

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, height, width)."""
        return self.channels, *self.size

    @property
    def nbytes(self) -> int:
        """Of one picture."""
        return self.channels * self.size[0] * self.size[1]

    def __str__(self) -> str:
        return f"{self.channels}x{self.size[0]}x{self.size[1]}-{self.resize}"


class DecodedPictures(NamedTuple):
    """Pictures of a folder.

    images: uint8 (M, C, H, W), of those that can be read. kept: their positions among all, int64 (M,).
    unreadable: why the others can't be, by their positions.
    """

    images: Tensor | StoredArray
    kept: Tensor
    unreadable: dict[int, str]


def decode_folder(
    folder: Path, files: Sequence[Path], form: PictureForm, selection: str = ""
) -> DecodedPictures:
    """The pictures of a folder: in memory where they are few, else on the disk, else decoded when asked for.

    Args:
        folder: Where they are.
        files: Their paths inside the folder.
        form: What they are brought to.
        selection: Which part of the folder the files are, in a word; what is kept of one part stays when
            another is decoded.

    Raises:
        DataError: If a worker process was killed.
    """
    if is_resident(len(files) * form.nbytes):
        return _resident(folder, files, form)
    fingerprint = _fingerprint_of(folder, files)
    home = _home_of(folder, selection)
    try:
        images, unreadable = _stored(folder, files, form, home / fingerprint)
    except DiskFullError as error:
        warnings.warn(
            f"{error}. Until then the pictures are decoded anew each time they are needed", NescioWarning, 2
        )
        unreadable = _damage(folder, files, home / f"{fingerprint}-checked.json")
        images = StoredArray(PictureRows(folder, files, form, fingerprint))
    kept = _positions_without(unreadable, len(files))
    if unreadable:
        images = images.select(kept)
    return DecodedPictures(images, kept, unreadable)


def decode_in_order(folder: Path, files: Sequence[Path], form: PictureForm) -> Iterator[list[Pixels]]:
    """All pictures in their order, some at a time: uint8 (C, H, W), or a text that says what is wrong.

    Raises:
        DataError: If a worker process was killed.
    """
    per_block = max(TASK, BLOCK_BYTES // form.nbytes // TASK * TASK)
    workers = min(cpu_count(), -(-len(files) // TASK))
    if len(files) <= FEW:
        workers = 1
    for first in range(0, len(files), per_block):
        yield _decode_block(folder, files[first : first + per_block], form, workers)


def _decode_block(folder: Path, files: Sequence[Path], form: PictureForm, workers: int) -> list[Pixels]:
    # Absolute: the processes are kept for the next call, and began in the folder of an earlier one.
    home = folder.absolute()
    tasks = []
    for first in range(0, len(files), TASK):
        tasks.append([home / file for file in files[first : first + TASK]])
    if workers == 1:
        parts = [decode_some(task, *form) for task in tasks]
    else:
        try:
            pool = Parallel(n_jobs=workers, batch_size=1, prefer="processes")
            parts = pool(delayed(decode_some)(task, *form) for task in tasks)
        except BrokenProcessPool as error:
            raise DataError(
                f"a process that decodes pictures was killed between {files[0]} and {files[-1]} of {folder}, "
                "maybe for lack of memory; started again, it goes on from there"
            ) from error
    decoded: list[Pixels] = []
    for part in parts:
        decoded += part
    return decoded


class PictureRows(RowReader):
    """Pictures that are decoded whenever they are read.

    Args:
        folder: Where they are.
        files: Their paths inside the folder.
        form: What they are brought to.
        fingerprint: Fingerprint of the files.
    """

    def __init__(self, folder: Path, files: Sequence[Path], form: PictureForm, fingerprint: str) -> None:
        self.shape = (len(files), *form.shape)
        self.dtype = torch.uint8
        self.fingerprint = f"{fingerprint}-{form}"
        self._folder = folder
        self._files = files
        self._form = form

    def read(self, positions: Sequence[int]) -> Tensor:
        """Decode them; one that can't be read is an error."""
        files = [self._files[position] for position in positions]
        rows = torch.empty((len(files), *self.shape[1:]), dtype=torch.uint8)
        done = 0
        for block in decode_in_order(self._folder, files, self._form):
            for pixels in block:
                if isinstance(pixels, str):
                    raise DataError(f"{self._folder / files[done]} can't be read: {pixels}")
                rows[done] = torch.from_numpy(pixels)
                done += 1
        return rows


def _resident(folder: Path, files: Sequence[Path], form: PictureForm) -> DecodedPictures:
    images = torch.empty((len(files), *form.shape), dtype=torch.uint8)
    unreadable: dict[int, str] = {}
    position = 0
    kept = 0
    for block in decode_in_order(folder, files, form):
        for pixels in block:
            if isinstance(pixels, str):
                unreadable[position] = pixels
            else:
                images[kept] = torch.from_numpy(pixels)
                kept += 1
            position += 1
    return DecodedPictures(images[:kept], _positions_without(unreadable, len(files)), unreadable)


def _stored(
    folder: Path, files: Sequence[Path], form: PictureForm, stem: Path
) -> tuple[StoredArray, dict[int, str]]:
    """One row for every file, zeros where it can't be read; and why those can't."""
    home = stem.parent
    path = home / f"{stem.name}-{form}.npy"
    needed = len(files) * form.nbytes

    def fill(writer: StoredArrayWriter) -> None:
        if free_bytes(home) < needed - writer.count * form.nbytes + SPARE_BYTES:
            writer.discard()
            raise no_room(home, needed + SPARE_BYTES)
        what = f"decoding {len(files):,} pictures to {form}, {needed / 1e9:.1f} GB in {home}"
        with _counting(what, len(files), writer.count) as progress:
            for block in decode_in_order(folder, files[writer.count :], form):
                writer.append(_rows_of(block, form, writer))
                progress.advance(progress.task_ids[0], len(block))

    if not path.is_file():
        _forget_former(home, stem.name)
    images = stored_once(path, form.shape, torch.uint8, fill, _tell_who_decodes)
    if len(images) != len(files):
        raise DataError(f"{path} holds {len(images)} pictures, {len(files)} were expected; remove it")
    unreadable = read_notes(path).get("unreadable", {})
    return images, {int(position): str(reason) for position, reason in unreadable.items()}


def _rows_of(block: Sequence[Pixels], form: PictureForm, writer: StoredArrayWriter) -> Tensor:
    rows = np.zeros((len(block), *form.shape), dtype=np.uint8)
    for place, pixels in enumerate(block):
        if isinstance(pixels, str):
            writer.notes.setdefault("unreadable", {})[str(writer.count + place)] = pixels
        else:
            rows[place] = pixels
    return torch.from_numpy(rows)


def _damage(folder: Path, files: Sequence[Path], path: Path) -> dict[int, str]:
    """Why pictures can't be read, by their positions: each is decoded once, and the path keeps why."""
    with suppress(OSError, ValueError, AttributeError):
        known = json.loads(path.read_text("utf-8"))
        return {int(position): str(reason) for position, reason in known.items()}
    unreadable: dict[int, str] = {}
    done = 0
    with _counting(f"looking for damaged pictures among {len(files):,}", len(files), 0) as progress:
        for block in decode_in_order(folder, files, PictureForm(1, CHECKED_SIZE, "crop")):
            for pixels in block:
                if isinstance(pixels, str):
                    unreadable[done] = pixels
                done += 1
            progress.advance(progress.task_ids[0], len(block))
    with suppress(OSError):  # it is looked for again the next time, that is all
        write_atomically(path, json.dumps(unreadable).encode())
    return unreadable


def _home_of(folder: Path, selection: str) -> Path:
    """Where the caches of a folder are: together, so that those of its former content can be found."""
    name = hashlib.sha256(os.fsencode(f"{folder.resolve()}\0{selection}")).hexdigest()[:16]
    return cache_dir() / "pictures" / name


def _fingerprint_of(folder: Path, files: Sequence[Path]) -> str:
    """Of the folder, the names, sizes and times of its files, and of the decoder."""
    found = hashlib.sha256(os.fsencode(f"{folder.resolve()}\0{PIL.__version__}\n"))
    for file in files:
        state = state_of(folder / file)
        times = f"{state.st_mtime_ns}\0{state.st_ctime_ns}"
        found.update(os.fsencode(f"{file.as_posix()}\0{state.st_size}\0{times}\n"))
    return found.hexdigest()[:32]


def _forget_former(home: Path, fingerprint: str) -> None:
    """Remove what was kept of the folder when it held something else: nothing will ask for it again."""
    for path in home.glob("*.npy"):
        if not path.name.startswith(fingerprint):
            for former in (path, notes_path(path)):
                with suppress(OSError):
                    former.unlink()
    for path in home.glob(".*.part*"):
        if not path.name.startswith(f".{fingerprint}"):
            with suppress(OSError):
                path.unlink()


def _positions_without(unreadable: dict[int, str], count: int) -> Tensor:
    return torch.tensor([index for index in range(count) if index not in unreadable], dtype=torch.int64)


def _tell_who_decodes(who: str) -> None:
    say(f"{who} is decoding these pictures; waiting")


@contextmanager
def _counting(what: str, total: int, done: int) -> Iterator[Progress]:
    """A bar on a terminal that disappears at the end; elsewhere one line."""
    console = Console(stderr=True)
    if not console.is_terminal:
        say(what)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        progress.add_task(what, total=total, completed=done)
        yield progress
