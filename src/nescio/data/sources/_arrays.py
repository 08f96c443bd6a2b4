"""ArrayFile: the inputs of an .npz or .npy file."""

from __future__ import annotations

import lzma
import os
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from nescio.data._labels import counted, is_no_label
from nescio.data._npy_rows import rows_of_npy
from nescio.data._stored import ConvertedRows, StoredArray, as_float32, is_resident
from nescio.data.dataset import LabelledData
from nescio.data.preprocess import Preprocess
from nescio.data.sources._base import Input, Labels, Place, Source, as_data, printable
from nescio.errors import DataError

# What numpy and zipfile raise on a file that is none, or a damaged one, or one that claims too much.
UNREADABLE = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError, RuntimeError),
    *(SyntaxError, TypeError, ValueError, struct.error, tokenize.TokenError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)
# A file that unpacks to more than this is refused where it is also packed tighter than data is: zeros alone.
MOST_UNPACKED = 256_000_000
TIGHTEST = 100
CONTENT = ("images", "features")
_ZIP_HEADER = struct.Struct("<4s22xHH")  # signature, length of the name, length of the extra field


class ArrayFile(Source):
    """An .npz file with `images` or `features`, and `labels` and `classes` where there are any; or an .npy.

    images: (N, H, W), (N, H, W, C) or (N, C, H, W), as bytes or as numbers from 0 to 255; features: (N, F).
    labels: (N,), numbers or names; with `classes`, the names of the classes, labels count from 0.
    """

    kind: ClassVar[str] = "arrays"
    about: ClassVar[str] = ".npz files without labels"

    def __init__(self, place: Place, arrays: Mapping[str, np.ndarray | StoredArray]) -> None:
        self.name = place.path.stem
        self._place = place
        self._arrays = arrays
        self._inputs = arrays["inputs"]

    @classmethod
    def recognises(cls, place: Place) -> bool:
        """Files that end in .npz or .npy."""
        return place.is_file() and place.suffix in (".npz", ".npy")

    @classmethod
    def open(cls, place: Place, **_: Any) -> ArrayFile:
        """Read the arrays that are needed, and no other one; large inputs stay on the disk where they can."""
        arrays = _arrays(place)
        inputs = arrays["inputs"]
        if isinstance(inputs, np.ndarray) and inputs.dtype.kind not in "biuf":
            raise DataError(f"{place.short_name}: inputs must be numbers, got {inputs.dtype}")
        if inputs.ndim == 0 or len(inputs) == 0:
            shape = tuple(inputs.shape)
            raise DataError(f"{place.short_name}: one or more inputs expected, got an array {shape}")
        return cls(place, arrays)

    def __len__(self) -> int:
        return len(self._inputs)

    def read(self, indices: Sequence[int]) -> list[Input]:
        """The inputs at these positions, named file:1, file:2 and so on."""
        name = printable(self._place.name)
        found = []
        for index in indices:
            found.append(Input(f"{name}:{index + 1}", _tensor(self._inputs[index])))
        return found

    def fingerprint(self) -> str:
        """The digest of the file."""
        return self._place.digest()

    @property
    def labels(self) -> Labels | None:
        """Of the array `labels`."""
        if "labels" not in self._arrays:
            return None
        labels = self._arrays["labels"]
        classes = self._arrays.get("classes")
        assert isinstance(labels, np.ndarray)
        assert isinstance(classes, np.ndarray | None)
        return _labels(self._place.short_name, labels, classes, len(self._inputs))

    def labelled(self, preprocess: Preprocess | None = None) -> LabelledData:
        """All of them; images must be bytes, in any order of the axes, and features finite."""
        labels = self.labels
        if labels is None:
            raise DataError(f"{self._place.short_name} must hold labels beside its inputs, got none")
        if preprocess is not None:
            return super().labelled(preprocess)
        if "images" in self._arrays or self._inputs.ndim > 2:
            return as_data(self.name, _channels_first(self._place.short_name, self._inputs), labels)
        return as_data(self.name, as_float32(_tensor(self._inputs)), labels)


def _arrays(place: Place) -> dict[str, np.ndarray | StoredArray]:
    """By name: inputs, the same as images if they are called so, and labels and classes where there are."""
    try:
        if place.content is None and place.suffix == ".npy" and not is_resident(place.path.stat().st_size):
            # One that can't be read row by row is read as a whole.
            with suppress(DataError):
                return {"inputs": StoredArray.open(place.path)}
        with place.open_file() as raw, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numpy and zipfile, about what is odd in a file
            file = np.load(raw, allow_pickle=False)
            if isinstance(file, np.ndarray):
                return {"inputs": file}
            return _members(place, file)
    except UNREADABLE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if "pickle" in reason:
            reason = (
                "it is something else, or holds Python objects"  # numpy's advice is to load them unsafely
            )
        raise DataError(f"{place.short_name} is not an .npz file of plain arrays: {reason}") from error


def _members(place: Place, file: np.lib.npyio.NpzFile) -> dict[str, np.ndarray | StoredArray]:
    found = file.files
    contents = [content for content in CONTENT if content in found]
    if not contents and len(found) == 1 and found != ["labels"]:
        contents = found
    if not contents:
        listed = ", ".join(found[:12]) or "nothing"
        raise DataError(f"{place.short_name} must hold images or features, got {listed}")
    arrays: dict[str, np.ndarray | StoredArray] = {}
    for content in (contents[0], "labels", "classes"):
        _require_likely_size(place, file, content)
    stored = _stored_member(place, f"{contents[0]}.npy")
    arrays["inputs"] = file[contents[0]] if stored is None else stored
    if contents[0] == "images":
        arrays["images"] = arrays["inputs"]
    for content in ("labels", "classes"):
        if content in found:
            arrays[content] = file[content]
    return arrays


def _require_likely_size(place: Place, file: np.lib.npyio.NpzFile, content: str) -> None:
    """Refuse an array by what the file announces: a few bytes may stand for gigabytes of zeros."""
    assert file.zip is not None
    for member in file.zip.infolist():
        if member.filename not in (content, f"{content}.npy"):
            continue
        if member.file_size > max(MOST_UNPACKED, TIGHTEST * member.compress_size):
            raise DataError(
                f"{place.short_name}: {content} would take {member.file_size:,} bytes, which the file packs "
                f"into {member.compress_size:,}; save it without compression to read it"
            )


def _stored_member(place: Place, name: str) -> StoredArray | None:
    """A large array that lies in the file as it is, not compressed; None for any other."""
    if place.content is not None:
        return None
    with zipfile.ZipFile(place.path) as archive:
        if name not in archive.namelist():
            return None
        member = archive.getinfo(name)
    is_encrypted = bool(member.flag_bits & 1)
    if member.compress_type != zipfile.ZIP_STORED or is_encrypted or is_resident(member.file_size):
        return None
    with place.path.open("rb") as file:
        file.seek(member.header_offset)
        header = file.read(_ZIP_HEADER.size)
        # The header in front of the data: its own name and notes may be longer than those in the list.
        signature, name_length, extra_length = _ZIP_HEADER.unpack(header)
        if signature != b"PK\x03\x04":
            raise zipfile.BadZipFile(f"{name} has no header")
        file.seek(name_length + extra_length, os.SEEK_CUR)
        with suppress(DataError):
            return StoredArray(rows_of_npy(place.path, file))
    return None


def _tensor(array: np.ndarray | Tensor | StoredArray) -> Any:
    """Bytes as they are, all else in float32; what that can't hold becomes infinite."""
    if isinstance(array, Tensor | StoredArray):
        return array if array.dtype == torch.uint8 else as_float32(array)
    if array.dtype == np.uint8:
        return torch.from_numpy(np.ascontiguousarray(array))
    with np.errstate(over="ignore"):
        return torch.from_numpy(np.asarray(array, dtype=np.float32))


def _channels_first(name: str, images: np.ndarray | StoredArray) -> Tensor | StoredArray:
    if isinstance(images, StoredArray):
        return _stored_channels_first(name, images)
    if images.dtype != np.uint8:
        found = " with NaN" if images.dtype.kind == "f" and np.isnan(images).any() else ""
        raise DataError(f"{name}: images must be uint8 0..255, got {images.dtype}{found}")
    pixels = torch.from_numpy(images)
    if pixels.ndim == 3:
        return pixels.unsqueeze(1)
    if pixels.ndim == 4 and pixels.shape[1] in (1, 3):
        return pixels
    if pixels.ndim == 4 and pixels.shape[3] in (1, 3):
        return pixels.permute(0, 3, 1, 2).contiguous()
    raise _wrong_axes(name, images.shape)


def _stored_channels_first(name: str, images: StoredArray) -> StoredArray:
    """As of an array in memory; images are brought to that order when they are read."""
    if images.dtype != torch.uint8:
        found = str(images.dtype).removeprefix("torch.")
        raise DataError(f"{name}: images must be uint8 0..255, got {found}")
    shape = tuple(images.shape)
    if images.ndim == 3:
        return StoredArray(ConvertedRows(images, (1, *shape[1:]), torch.uint8, _add_channel))
    if images.ndim == 4 and shape[1] in (1, 3):
        return images
    if images.ndim == 4 and shape[3] in (1, 3):
        turned = (shape[3], shape[1], shape[2])
        return StoredArray(ConvertedRows(images, turned, torch.uint8, _channels_to_front))
    raise _wrong_axes(name, shape)


def _add_channel(images: Tensor) -> Tensor:
    return images.unsqueeze(1)  # (M, H, W) -> (M, 1, H, W)


def _channels_to_front(images: Tensor) -> Tensor:
    return images.permute(0, 3, 1, 2).contiguous()  # (M, H, W, C) -> (M, C, H, W)


def _wrong_axes(name: str, shape: tuple[int, ...]) -> DataError:
    return DataError(f"{name}: images must be (N, H, W), (N, H, W, C) or (N, C, H, W), got {shape}")


def _labels(name: str, labels: np.ndarray, classes: np.ndarray | None, count: int) -> Labels:
    if labels.ndim != 1 or labels.dtype.kind not in "biufSU":
        raise DataError(f"{name}: labels must be one-dimensional numbers or names, got {_form(labels)}")
    if len(labels) != count:
        raise DataError(f"{name}: {count} samples but {len(labels)} labels")
    values = []
    for position, label in enumerate(labels.tolist()):
        value = _text(name, label)
        if is_no_label(str(value)):
            raise DataError(f"{name}, labels[{position}]: a label expected, got {str(value)!r}")
        values.append(value)
    if classes is None:
        return Labels(*counted(name, values))
    if classes.ndim != 1 or classes.dtype.kind not in "SU" or len(classes) < 2:
        raise DataError(f"{name}: classes must be two or more names, got {_form(classes)}")
    if labels.dtype.kind not in "iu" or not np.isin(labels, range(len(classes))).all():
        raise DataError(f"{name}: with classes, labels must be 0..{len(classes) - 1}")
    names = tuple(str(_text(name, one)) for one in classes.tolist())
    return Labels(torch.from_numpy(labels.astype(np.int64)), names)


def _form(array: np.ndarray) -> str:
    return f"{array.dtype} {array.shape}"


def _text(name: str, value: object) -> object:
    """Bytes as the text they spell, all else as it is."""
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: {value!r} is not UTF-8") from error
