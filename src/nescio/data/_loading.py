"""load: a data set by its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nescio._checks import require_whole
from nescio._fetch.store import fetch
from nescio.data import _rendered
from nescio.data._catalog import CIFAR10, ENTRIES, GENERATED, Entry, glyph_classes
from nescio.data._readers import read_cifar, read_idx_pair
from nescio.data.dataset import Dataset
from nescio.errors import DataError, InputError

READERS = {"idx": read_idx_pair, "cifar": read_cifar}

SPLITS = ("train", "test")
PAPER_KNOWN = (5, 6, 7, 8, 9)  # dog, frog, horse, ship, truck
LETTER_COUNTS = {"train": 10_000, "test": 5_000}
GLYPHS_PER_CLASS = {"train": 40, "test": 10}


def load(
    name: str,
    split: str = "train",
    *,
    data_dir: str | Path | None = None,
    download: bool = True,
    known: Sequence[int] | None = None,
    seed: int | None = None,
) -> Dataset:
    """A data set of the catalog, as tensors in memory; `nescio data list` names what there is.

    Args:
        name: Name of the data set.
        split: "train" or "test".
        data_dir: A folder that holds the files already, packed or unpacked; default NESCIO_DATA.
        download: Whether it may be fetched over a network, where it is not here.
        known: For cifar5 and cifar5-unseen, the CIFAR-10 labels that count as known; default the paper's.
        seed: For letters and glyphs-K, another drawing than the standard one, 0 or more.

    Returns:
        Images with labels.

    Raises:
        InputError: If there is no such data set, or an argument does not go with it.
        FetchError: If it can't be had; the message lists what was tried, and what to do.

    Example:
        >>> load("letters", "test")
        Dataset('letters', 5000 images 1x28x28, 10 classes)
    """
    _check_settings(name, split, known, seed)
    if name in ENTRIES:
        return _load_files(ENTRIES[name], split, fetch(ENTRIES[name], data_dir, download))
    if name in ("cifar5", "cifar5-unseen"):
        whole = _load_files(CIFAR10, split, fetch(CIFAR10, data_dir, download))
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
    if split not in SPLITS:
        raise InputError(f"split must be 'train' or 'test', got {split!r}")
    if known is not None and not name.startswith("cifar5"):
        raise InputError(f"known goes with cifar5 and cifar5-unseen, not with {name!r}")
    if seed is not None and not name.startswith(("letters", "glyphs-")):
        raise InputError(f"seed goes with letters and glyphs-K, not with {name!r}")
    if seed is not None:
        require_whole("seed", seed, least=0)


def _load_files(entry: Entry, split: str, folder: Path) -> Dataset:
    try:
        images, labels = READERS[entry.kind]([folder / file.name for file in entry.splits[split]])
        return Dataset(images, labels, entry.classes, entry.name)
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
