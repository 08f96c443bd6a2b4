"""open_source: from a path or a name to its source, by the registry of the kinds there are."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

from nescio._registry import Registry
from nescio.data._catalog import in_catalog
from nescio.data._pictures import SUFFIXES as OF_PICTURES
from nescio.data._table_files import SUFFIXES as OF_TABLES
from nescio.data.sources._base import Input, Place, Source, printable
from nescio.data.sources._texts import SUFFIXES as OF_TEXTS
from nescio.data.sources._texts import TextSource
from nescio.errors import DataError, InputError

SourceClass = TypeVar("SourceClass", bound=type[Source])

LONGEST_NAME = 60  # characters of a text that stand for it
FILE_ENDINGS = (".npz", ".npy", *OF_TEXTS, *OF_TABLES, *OF_PICTURES)

# Options of `open_source` as messages call them, and what they go with.
GOES_WITH = {
    "size": "a folder of pictures",
    "resize": "a folder of pictures",
    "strict": "a folder of pictures or texts",
    "group": "a folder of pictures or a table",
    "label": "a table",
    "drop": "a table",
    "text": "a table",
    "split": "a data set of the catalog, or a folder of pictures or texts",
    "data_dir": "a data set of the catalog",
}


def _register_ours() -> None:
    from nescio.data.sources._arrays import ArrayFile
    from nescio.data.sources._memory import CatalogSource
    from nescio.data.sources._pictures import PictureFolder
    from nescio.data.sources._saved import SavedPictures, SavedTable
    from nescio.data.sources._tables import TableFile
    from nescio.data.sources._texts import TextFile, TextFolder

    # A saved data set and a folder of texts are asked before one of pictures, which takes every folder.
    folders = (SavedPictures, SavedTable, TextFolder, PictureFolder)
    for source in (CatalogSource, *folders, ArrayFile, TableFile, TextFile):
        register_source(source)


def _check(name: str, source: type[Source]) -> None:
    if not isinstance(source, type) or not issubclass(source, Source):
        raise InputError(f"the source {name!r} must be a subclass of Source, got {source!r}")
    if source.kind != name:
        raise InputError(f"{source.__name__} calls itself {source.kind!r}, but is registered as {name!r}")


SOURCES: Registry[type[Source]] = Registry("source", "nescio.sources", _register_ours, check=_check)


def register_source(source: SourceClass) -> SourceClass:
    """Make a kind of source known to train, evaluate, predict and the service, by its `kind`.

    Args:
        source: The class. `open_source` asks it after the kinds that come with nescio.

    Returns:
        The same class, so that this can stand above it as a decorator.

    Raises:
        InputError: If it is no source, or if another kind has its name.

    Example:
        >>> from nescio.data.sources import SOURCES
        >>> arrays = SOURCES.get("arrays")
        >>> register_source(arrays) is arrays  # the same class may be registered again
        True
    """
    SOURCES.register(source.kind, source)
    return source


def open_source(
    place: str | Path,
    content: bytes | None = None,
    *,
    label: str | None = None,
    drop: Sequence[str] | None = None,
    text: str | None = None,
    size: int | tuple[int, int] | None = None,
    resize: str | None = None,
    group: str | int | None = None,
    strict: bool = False,
    split: str | None = None,
    data_dir: str | Path | None = None,
) -> Source:
    """The source at a place: a folder of pictures, a file, a data set of the catalog, or a kind of your own.

    Args:
        place: A path, or the name of a data set, which wins over a folder of that name.
        content: The bytes of a file, where they are not on the disk; `place` is then only its name.
        label: The column of a table that holds the labels; without a header, its number from 1 on.
            Default: label, class, target or y, else the last.
        drop: Columns of a table not to learn from.
        text: The column of a table that holds texts to learn from.
        size: (height, width), or one number, that the pictures of a folder are brought to in training.
        resize: How: "stretch" (the default), "crop" the middle, or "pad" with black.
        group: What a split keeps together: the column of a table, or of a folder of pictures the level of
            the sub-folders whose names are the groups, from 1 on.
        strict: Whether training refuses a folder with files that can't be read.
        split: "train" or "test" (the default) of a data set of the catalog; of a folder of pictures or texts
            with sub-folders train, val or test the one to take, by default all of them.
        data_dir: A folder that holds the files of a data set of the catalog already.

    Returns:
        The source; nothing but what is needed to know its length may have been read.

    Raises:
        InputError: If there is nothing at the place, or an option is given that does not go with it.
        DataError: If what is there can't be read at all.

    Example:
        >>> source = open_source("rows.csv", b"a,b,label\\n1,2,cat\\n3,4,dog\\n")
        >>> len(source), source.labels.classes
        (2, ('cat', 'dog'))
    """
    if isinstance(drop, str):
        raise InputError(f"drop must be a list of columns, got {drop!r}")
    options = {
        "label": label,
        "drop": drop or None,
        "text": text,
        "size": size,
        "resize": resize,
        "group": group,
        "strict": strict or None,
        "split": split,
        "data_dir": data_dir,
    }
    found = Place(str(place), content)
    kind = _kind_of(found)
    given = {}
    for name, value in options.items():
        if value is None:
            continue
        if name not in kind.options:
            raise InputError(f"{name} goes with {GOES_WITH[name]}, not with {found.short_name}")
        given[name] = value
    return kind.open(found, **given)


def _is_there(place: Place) -> bool:
    if place.content is None and not place.name.strip():
        return False  # as a path it would be the current folder
    try:
        return place.is_file() or place.is_folder() or in_catalog(place.name)
    except (OSError, ValueError):  # a name that is too long for a file, or has a zero in it
        return False


def _looks_like_a_file(text: str) -> bool:
    """Whether a text is one word with the ending of a file that could be read: somebody mistyped a path."""
    return len(text.split()) == 1 and Path(text).suffix.lower() in FILE_ENDINGS


def _beginning(text: str) -> str:
    """What a text is called: by its first words."""
    words = printable(" ".join(text.split())) or "an empty text"
    return words if len(words) <= LONGEST_NAME else f"{words[:LONGEST_NAME]}..."


def _kind_of(place: Place) -> type[Source]:
    from nescio.data.sources._pictures import PictureFile

    for name in SOURCES:
        kind = SOURCES.get(name)
        if kind.recognises(place):
            return kind
    if place.is_file():
        return PictureFile  # whatever its name: its content decides whether it is one
    raise InputError(
        f"there is no file or folder {place.name}, nor a data set of that name; "
        "nescio data list names the data sets"
    )


def is_single_picture(place: Place) -> bool:
    """Whether a file will be taken as one picture, by its name alone: nothing has to be read to open it."""
    from nescio.data.sources._pictures import PictureFile

    return place.is_file() and _kind_of(place) is PictureFile


class SeveralSources(Source):
    """Several sources, one after the other."""

    about: ClassVar[str] = "several sources"

    def __init__(self, sources: Sequence[Source]) -> None:
        self.name = ", ".join(source.name for source in sources)
        self._members: list[tuple[Source, int]] = []
        for source in sources:
            for index in range(len(source)):
                self._members.append((source, index))
        self._sources = sources

    def __len__(self) -> int:
        return len(self._members)

    def read(self, indices: Sequence[int]) -> list[Input]:
        """The inputs at these positions."""
        found: list[Input] = []
        for index in indices:
            source, inside = self._members[index]
            found += source.read([inside])
        return found

    def fingerprint(self) -> str:
        """Of all of them."""
        lines = []
        for source in self._sources:
            lines.append(f"{len(source)} {source.fingerprint()}")
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


class UnreadableSource(Source):
    """What could not be opened: one input with an error."""

    about: ClassVar[str] = "what can't be opened"

    def __init__(self, name: str, error: str) -> None:
        self.name = printable(name)
        self._error = printable(" ".join(error.split()))

    def __len__(self) -> int:
        return 1

    def read(self, indices: Sequence[int]) -> list[Input]:
        """The error, at every position that is asked for."""
        return [Input(self.name, None, self._error)] * len(indices)

    def fingerprint(self) -> str:
        """The error."""
        return self._error


def open_sources(places: Sequence[str | Path | Place], *, takes_texts: bool = False) -> Source:
    """One or several places as one source; one that can't be read is an input with an error among the others.

    Args:
        places: Paths or names, or files as bytes.
        takes_texts: Whether a string at which there is nothing is itself an input: for a model of texts.

    Returns:
        The inputs of all places, one after the other.

    Raises:
        InputError: If there is nothing at one of the places.

    Example:
        >>> source = open_sources([Place("a.csv", b"1,2"), Place("b.npz", b"broken")])
        >>> [one.error is None for one in source.read([0, 1])]
        [True, False]
        >>> open_sources(["How is the weather?"], takes_texts=True).read([0])[0].value.content
        'How is the weather?'
    """
    if not places:
        raise InputError("there must be one or more places to read from, got none")
    sources: list[Source] = []
    for place in places:
        given = place if isinstance(place, Place) else Place(str(place))
        if takes_texts and not isinstance(place, Path) and not _is_there(given):
            if _looks_like_a_file(given.name):
                raise InputError(f"there is no file {given.name}")
            sources.append(TextSource.named(given.name, _beginning(given.name)))
            continue
        try:
            source = _kind_of(given).open(given)
            if len(source) == 0:
                raise DataError(f"{given.name} holds nothing to read, where pictures were expected")
            sources.append(source)
        except DataError as error:
            sources.append(UnreadableSource(given.name, str(error)))
    return sources[0] if len(sources) == 1 else SeveralSources(sources)
