"""From the bytes of a text file to its text."""

from __future__ import annotations

import codecs
import warnings

from nescio.errors import DataError, NescioWarning

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def looks_binary(beginning: bytes) -> bool:
    """Whether a file that begins so is no text."""
    if any(beginning.startswith(mark) for mark, _ in _MARKS):
        return False
    return b"\0" in beginning or beginning.startswith((b"\x89PNG", b"\xff\xd8\xff"))


def decode(content: bytes, name: str) -> str:
    """The text of a file: by its byte order mark, else UTF-8, else Latin-1 with a warning.

    Args:
        content: All of the file.
        name: Name of the file, for messages.

    Raises:
        DataError: If it is no text.
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return _decoded(content, encoding, name)
    if b"\0" in content:
        raise DataError(f"{name} can't be read: it is not a text file")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        warnings.warn(
            f"{name} is not in UTF-8 and is read as Latin-1; if letters come out wrong, save it as UTF-8",
            NescioWarning,
            stacklevel=2,
        )
    try:
        return content.decode("cp1252")  # Latin-1 as Windows writes it, with quotation marks and the euro
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _decoded(content: bytes, encoding: str, name: str) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise DataError(f"{name} can't be read: {error}") from error
