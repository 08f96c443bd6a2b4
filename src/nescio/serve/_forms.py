"""Forms, multipart/form-data: taken apart in memory, in utf-8 alone, with small fields."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Any

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from nescio.serve._errors import RequestError

MAX_FIELD = 1024  # bytes of a field that is no file: the name of a model
MAX_FIELDS = 1000  # that are no files
MAX_PART_HEADERS = 8192  # bytes of the headers of one part


@dataclass(eq=False)
class Part:
    """A field of a form. file_name: None where it is no file."""

    name: str = ""
    file_name: str | None = None
    content: bytes = b""


def parse_parts(content_type: str, body: bytes, max_files: int) -> list[Part]:
    """The fields of a form; refused where there are too many or one that is no file is too long.

    The charset is not the client's choice: among Python's are some that take minutes over a megabyte.
    """
    _, options = parse_options_header(content_type)
    charset = options.get(b"charset", b"utf-8")
    if not _is_utf8(charset):
        raise RequestError(400, "the form can't be read: say charset=utf-8, or nothing")
    if b"boundary" not in options:
        raise RequestError(400, "the form can't be read: its content type names no boundary")
    collector = _Collector(max_files)
    try:
        parser = MultipartParser(options[b"boundary"], collector.callbacks())
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise RequestError(400, "the form can't be read: it is no multipart/form-data") from error
    return collector.parts


def _is_utf8(charset: bytes) -> bool:
    try:
        return codecs.lookup(charset.decode("ascii")).name == "utf-8"
    except (LookupError, UnicodeDecodeError):
        return False


class _Collector:
    """What a parser calls with the pieces of a form."""

    def __init__(self, max_files: int) -> None:
        self.parts: list[Part] = []
        self._max_files = max_files
        self._num_files = 0
        self._header_name = b""
        self._header_value = b""
        self._headers_size = 0
        self._disposition = b""
        self._part = Part()
        self._pieces: list[bytes] = []
        self._size = 0

    def callbacks(self) -> Any:
        return {
            "on_part_begin": self._begin_part,
            "on_header_field": self._add_header_name,
            "on_header_value": self._add_header_value,
            "on_header_end": self._end_header,
            "on_headers_finished": self._end_headers,
            "on_part_data": self._add_content,
            "on_part_end": self._end_part,
        }

    def _begin_part(self) -> None:
        self._part = Part()
        self._pieces = []
        self._size = 0
        self._headers_size = 0
        self._disposition = b""

    def _add_header_name(self, data: bytes, start: int, end: int) -> None:
        self._count_header(end - start)
        self._header_name += data[start:end]

    def _add_header_value(self, data: bytes, start: int, end: int) -> None:
        self._count_header(end - start)
        self._header_value += data[start:end]

    def _count_header(self, size: int) -> None:
        self._headers_size += size
        if self._headers_size > MAX_PART_HEADERS:
            raise RequestError(
                400, f"the form has a part with more than {MAX_PART_HEADERS:,} bytes of headers"
            )

    def _end_header(self) -> None:
        if self._header_name.lower() == b"content-disposition":
            self._disposition = self._header_value
        self._header_name = b""
        self._header_value = b""

    def _end_headers(self) -> None:
        _, options = parse_options_header(self._disposition)
        if b"name" not in options:
            raise RequestError(400, "the form can't be read: it has a part without a name")
        self._part.name = options[b"name"].decode("utf-8", "replace")
        if b"filename" not in options:
            if len(self.parts) - self._num_files >= MAX_FIELDS:
                raise RequestError(422, f"the form has too many fields; at most {MAX_FIELDS:,} beside files")
            return
        self._part.file_name = options[b"filename"].decode("utf-8", "replace")
        self._num_files += 1
        if self._num_files > self._max_files:
            raise RequestError(422, f"there must be 1 to {self._max_files:,} inputs, got more")

    def _add_content(self, data: bytes, start: int, end: int) -> None:
        self._size += end - start
        if self._part.file_name is None and self._size > MAX_FIELD:
            raise RequestError(413, f"the form has a field of more than {MAX_FIELD:,} bytes that is no file")
        self._pieces.append(data[start:end])

    def _end_part(self) -> None:
        self._part.content = b"".join(self._pieces)
        self._pieces = []
        self.parts.append(self._part)
