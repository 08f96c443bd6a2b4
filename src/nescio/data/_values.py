"""What a source reads: a picture that is not decoded yet, a row of cells, a text; numbers are tensors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from nescio.data._pictures import Header, read_header, read_picture
from nescio.errors import DataError


@dataclass(frozen=True)
class Picture:
    """A picture file that is decoded once its size is known.

    Args:
        content: Where the file is, or its bytes.
        name: What messages call it.

    Example:
        >>> Picture(b"no picture", "note.png").header()
        Traceback (most recent call last):
        nescio.errors.DataError: note.png is not a PNG, JPEG, BMP or WebP picture
    """

    content: Path | bytes
    name: str

    def header(self) -> Header:
        """Channels and size as the file says, without decoding it.

        Raises:
            DataError: If it is no picture, or one with too many pixels.
        """
        return read_header(self.content, self.name)

    def pixels(self, channels: int, size: tuple[int, int], resize: str = "stretch") -> Tensor:
        """Decode it, turned upright and brought to the size.

        Args:
            channels: 1 for grey, 3 for colour.
            size: (height, width).
            resize: "stretch", "crop" or "pad", see `ImagePreprocess`.

        Returns:
            uint8 (channels, height, width).

        Raises:
            DataError: If it is damaged, no picture, or has too many pixels.
        """
        return read_picture(self.content, channels, size, self.name, resize)


class NoText(str):
    """In the place of a cell whose value, such as a list, no text stands for; it says why.

    Only whoever reads the cell gets the error: a table may have columns that nobody learns from.
    """

    __slots__ = ()


@dataclass(frozen=True)
class Row:
    """A line of a table, as text.

    Args:
        cells: One text for each column.
        header: The names of the columns; None where the table has none.
        place: Where it is, for messages: "flowers.csv, line 3".

    Example:
        >>> Row(("5.1", "3.5"), ("length", "width"), "flowers.csv, line 2").cells
        ('5.1', '3.5')
    """

    cells: tuple[str, ...]
    header: tuple[str, ...] | None
    place: str

    def cell(self, position: int) -> str:
        """The text of a cell.

        Args:
            position: The number of its column, from 0 on.

        Raises:
            DataError: If it holds something that is no text.
        """
        found = self.cells[position]
        if isinstance(found, NoText):
            called = str(position + 1) if self.header is None else self.header[position]
            raise DataError(f"{self.place}, column {called}: {found}")
        return found


@dataclass(frozen=True)
class Text:
    """A text.

    Args:
        content: The text itself.
        name: What messages call it.

    Example:
        >>> Text("How is the weather?", "questions.txt, line 3").content
        'How is the weather?'
    """

    content: str
    name: str


Value = Tensor | Picture | Row | Text
