"""Samples: inputs as people can look at them, with what the model says of each."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from torch import Tensor

from nescio.data import Dataset, LabelledData, Table, TableSchema, Texts
from nescio.data._columns import as_number
from nescio.reports._results import Results

LARGEST_SIDE = 128  # pixels of a thumbnail
SMALL_SIDE = 64  # pictures below it are enlarged, so that their pixels can be seen
LONGEST_TEXT = 280
MOST_COLUMNS = 12
LONGEST_NUMBER = 8  # characters


@dataclass(frozen=True)
class Sample:
    """An input and what the model says of it; of picture, text and cells, one is there.

    Args:
        truth: Name of its class.
        answer: Name of the class that the model finds most probable.
        probability: The probability of that class.
        uncertainty: How uncertain the model is.
        is_right: Whether the answer is right.
        is_accepted: Whether the model stands by its answer.
        picture: A thumbnail as the bytes of a PNG file.
        text: The text, shortened.
        cells: The values of a row, in the order of `column_names`.
    """

    truth: str
    answer: str
    probability: float
    uncertainty: float
    is_right: bool
    is_accepted: bool
    picture: bytes | None = None
    text: str | None = None
    cells: tuple[str, ...] | None = None

    @property
    def address(self) -> str:
        """The thumbnail as a data address."""
        assert self.picture is not None
        return "data:image/png;base64," + base64.b64encode(self.picture).decode()


def samples_at(
    data: LabelledData, results: Results, classes: Sequence[str], positions: Tensor
) -> list[Sample]:
    """The inputs at some positions, in this order.

    Args:
        data: The data that was predicted.
        results: What was measured on it.
        classes: The names of the model's classes.
        positions: int64 (M,).
    """
    said = results.prediction[positions]
    highest = said.max_probability().tolist()
    doubt = said.uncertainty.tolist()
    answers = said.labels.tolist()
    inputs = _shown_inputs(data.take(positions))
    samples = []
    for place, position in enumerate(positions.tolist()):
        sample = Sample(
            truth=classes[int(results.labels[position])],
            answer=classes[answers[place]],
            probability=highest[place],
            uncertainty=doubt[place],
            is_right=bool(results.right[position]),
            is_accepted=bool(results.accepted[position]),
            **inputs[place],
        )
        samples.append(sample)
    return samples


def column_names(data: LabelledData) -> tuple[str, ...]:
    """The columns of a table that are shown; none for other data."""
    if not isinstance(data, Table):
        return ()
    return _schema_of(data).names[:MOST_COLUMNS]


def count_columns(data: LabelledData) -> int:
    """The columns that there are of a table; none for other data."""
    if not isinstance(data, Table):
        return 0
    return len(_schema_of(data).names)


def _shown_inputs(data: LabelledData) -> list[dict[str, Any]]:
    """For each input the one argument of `Sample` that shows it."""
    if len(data) == 0:
        return []
    if isinstance(data, Texts):
        return [{"text": _shortened(text)} for text in data.texts]
    if isinstance(data, Dataset):
        return [{"picture": thumbnail(image)} for image in data.images[:]]
    schema = _schema_of(data)
    return [{"cells": _short_cells(schema.decode(row))} for row in data.features[:]]


def _short_cells(cells: tuple[str, ...]) -> tuple[str, ...]:
    """The first cells; numbers that would be long have five digits."""
    shown = []
    for cell in cells[:MOST_COLUMNS]:
        is_long_number = len(cell) > LONGEST_NUMBER and "." in cell and as_number(cell) is not None
        shown.append(f"{float(cell):.5g}" if is_long_number else cell)
    return tuple(shown)


def _schema_of(data: Table) -> TableSchema:
    return data.schema or TableSchema.of_numbers(count=data.features.shape[1])


def thumbnail(image: Tensor) -> bytes:
    """A small picture as the bytes of a PNG file.

    Args:
        image: (C, H, W), see `as_picture`.
    """
    from PIL import Image

    from nescio.data._contact import as_picture

    picture = as_picture(image)
    longest = max(picture.size)
    if longest < SMALL_SIDE:
        factor = LARGEST_SIDE // longest
        picture = picture.resize((picture.width * factor, picture.height * factor), Image.Resampling.NEAREST)
    elif longest > LARGEST_SIDE:
        picture.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    file = BytesIO()
    picture.save(file, "PNG", optimize=True)
    return file.getvalue()


def _shortened(text: str) -> str:
    plain = " ".join(text.split())
    if len(plain) <= LONGEST_TEXT:
        return plain
    return plain[: LONGEST_TEXT - 1].rstrip() + "…"
