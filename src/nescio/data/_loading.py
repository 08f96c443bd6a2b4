"""load: a data set by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal, overload

from nescio._checks import require_whole
from nescio._fetch.store import fetch
from nescio.data import _rendered
from nescio.data._catalog import CIFAR10, CLINC150, ENTRIES, GENERATED, Entry, glyph_classes
from nescio.data._readers import read_cifar, read_idx_pair
from nescio.data._sets import read_clinc, read_clinc_out_of_scope, read_keel, read_orange
from nescio.data.dataset import Dataset, LabelledData, Table, Texts
from nescio.errors import DataError, InputError

IMAGE_READERS = {"idx": read_idx_pair, "cifar": read_cifar}
Reader = Callable[[Path, str, str], Table | Texts]
READERS: dict[str, Reader] = {
    "clinc": read_clinc,
    "orange": read_orange,
    "keel": read_keel,
}

SPLITS = ("train", "test")
PAPER_KNOWN = (5, 6, 7, 8, 9)  # dog, frog, horse, ship, truck
LETTER_COUNTS = {"train": 10_000, "test": 5_000}
GLYPHS_PER_CLASS = {"train": 40, "test": 10}


TextSet = Literal["clinc150", "clinc150-oos", "20newsgroups"]
TableSet = Literal["letter", "satimage", "penbased"]


@overload
def load(  # type: ignore[overload-overlap]
    name: TextSet,
    split: str = ...,
    *,
    data_dir: str | Path | None = ...,
    download: bool = ...,
    known: Sequence[int] | None = ...,
    seed: int | None = ...,
) -> Texts: ...
@overload
def load(  # type: ignore[overload-overlap]
    name: TableSet,
    split: str = ...,
    *,
    data_dir: str | Path | None = ...,
    download: bool = ...,
    known: Sequence[int] | None = ...,
    seed: int | None = ...,
) -> Table: ...
@overload
def load(
    name: str,
    split: str = ...,
    *,
    data_dir: str | Path | None = ...,
    download: bool = ...,
    known: Sequence[int] | None = ...,
    seed: int | None = ...,
) -> Dataset: ...
def load(
    name: str,
    split: str = "train",
    *,
    data_dir: str | Path | None = None,
    download: bool = True,
    known: Sequence[int] | None = None,
    seed: int | None = None,
) -> LabelledData:
    """A data set of the catalog, in memory; `nescio data list` names what there is.

    Args:
        name: Name of the data set.
        split: "train" or "test"; of clinc150 also "val".
        data_dir: A folder that holds the files already, packed or unpacked; default NESCIO_DATA.
        download: Whether it may be fetched over a network, where it is not here.
        known: For cifar5 and cifar5-unseen, the CIFAR-10 labels that count as known; default the paper's.
        seed: For letters and glyphs-K, another drawing than the standard one, 0 or more.

    Returns:
        Images, rows of numbers or texts with labels.

    Raises:
        InputError: If there is no such data set, or an argument does not go with it.
        FetchError: If it can't be had; the message lists what was tried, and what to do.

    Example:
        >>> load("letters", "test")
        Dataset('letters', 5000 images 1x28x28, 10 classes)
    """
    _check_settings(name, split, known, seed)
    if name in ENTRIES:
        entry = ENTRIES[name]
        folder = fetch(entry, data_dir, download)
        if entry.layout in READERS:
            return _load_file(entry, name, split, folder, READERS[entry.layout])
        return _load_images(entry, split, folder)
    if name == "clinc150-oos":
        folder = fetch(CLINC150, data_dir, download)
        return _load_file(CLINC150, name, split, folder, read_clinc_out_of_scope)
    if name in ("cifar5", "cifar5-unseen"):
        whole = _load_images(CIFAR10, split, fetch(CIFAR10, data_dir, download))
        return replace(whole.only(_five(name, known)), name=name)
    if name == "letters":
        return _letters(split, seed)
    num_classes = glyph_classes(name)
    if num_classes is not None:
        return _glyphs(num_classes, split, seed)
    names = [*ENTRIES, *(each.name for each in GENERATED)]
    raise InputError(f"there is no data set {name!r}; there are {', '.join(names)}")


def _check_settings(name: str, split: str, known: Sequence[int] | None, seed: int | None) -> None:
    if not isinstance(name, str):
        raise InputError(f"name must be the name of a data set, got {name!r}")
    splits: Sequence[str] = SPLITS
    if name.startswith("clinc150"):
        splits = tuple(CLINC150.splits)
    if split not in splits:
        listed = " or ".join(repr(one) for one in splits)
        raise InputError(f"split must be {listed}, got {split!r}")
    if known is not None and not name.startswith("cifar5"):
        raise InputError(f"known goes with cifar5 and cifar5-unseen, not with {name!r}")
    if seed is not None and not name.startswith(("letters", "glyphs-")):
        raise InputError(f"seed goes with letters and glyphs-K, not with {name!r}")
    if seed is not None:
        require_whole("seed", seed, least=0)


def _load_images(entry: Entry, split: str, folder: Path) -> Dataset:
    with _explaining(entry, folder):
        images, labels = IMAGE_READERS[entry.layout]([folder / file.name for file in entry.splits[split]])
        return Dataset(images, labels, entry.classes, entry.name)


def _load_file(entry: Entry, name: str, split: str, folder: Path, read: Reader) -> Table | Texts:
    (file,) = entry.splits[split]
    with _explaining(entry, folder):
        return read(folder / file.name, name, split)


@contextmanager
def _explaining(entry: Entry, folder: Path) -> Iterator[None]:
    """What to do about files that were verified once and can't be read now."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{error}; delete {folder} or run: nescio data fetch {entry.name}") from error


def _five(name: str, known: Sequence[int] | None) -> list[int]:
    chosen = list(PAPER_KNOWN if known is None else known)
    if len(set(chosen)) != 5 or not set(chosen) <= set(range(10)):
        raise InputError(f"known must be five different labels 0..9, got {chosen}")
    if name == "cifar5":
        return chosen
    return sorted(set(range(10)) - set(chosen))


def _drawing_seed(split: str, seed: int | None) -> int:
    # Train and test never share a drawing, whatever the seed.
    return 2 * (seed or 0) + SPLITS.index(split)


def _letters(split: str, seed: int | None) -> Dataset:
    images, labels = _rendered.letters(LETTER_COUNTS[split], _drawing_seed(split, seed))
    return Dataset(images, labels, tuple("ABCDEFGHIJ"), "letters")


def _glyphs(num_classes: int, split: str, seed: int | None) -> Dataset:
    images, labels, characters = _rendered.glyphs(
        num_classes, GLYPHS_PER_CLASS[split], _drawing_seed(split, seed)
    )
    return Dataset(images, labels, characters, f"glyphs-{num_classes}")
