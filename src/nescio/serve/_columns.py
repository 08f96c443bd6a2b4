"""The columns of a table model as plain data: what a client, or a form, needs to know of each."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from nescio.data import Preprocess, RowPreprocess
from nescio.data._columns import CategoryColumn, Column, DateColumn, NumberColumn

_EPOCH = datetime(1970, 1, 1)


def describe_columns(preprocess: Preprocess) -> list[dict[str, Any]] | None:
    """Describe the columns that a model reads; None where it takes no rows.

    A column has a name, a kind ("number", "category" or "date"), the style in which it is written, the values
    of a category, what is usual (the mean of the training data, and a standard deviation to both sides), and
    whether it may be left empty.
    """
    if not isinstance(preprocess, RowPreprocess):
        return None
    schema = preprocess.row_schema
    described = []
    place = 0  # of the column's first feature
    for column in schema.columns:
        described.append(_describe(column, preprocess.mean[place], preprocess.scale[place]))
        place += len(column.features)
    return described


def _describe(column: Column, mean: float, spread: float) -> dict[str, Any]:
    """mean, spread: of the first feature of the column, which is the measured one where there is one."""
    description: dict[str, Any] = {
        "name": column.name,
        "kind": column.kind,
        "style": None,
        "values": None,
        "usual": None,
        "least": None,
        "most": None,
        "has_time": False,
        "may_be_empty": False,
    }
    if isinstance(column, CategoryColumn):
        description["values"] = list(column.values)
        description["usual"] = column.values[0]
        description["may_be_empty"] = column.has_gaps
    elif isinstance(column, NumberColumn):
        center = mean + column.offset
        description["style"] = column.style
        description["usual"] = _rounded(center, spread)
        description["least"] = _rounded(center - spread, spread)
        description["most"] = _rounded(center + spread, spread)
        description["may_be_empty"] = column.filled is not None
    elif isinstance(column, DateColumn):
        center = mean + column.origin
        description["style"] = column.style
        description["usual"] = _moment(center, column.has_time)
        description["least"] = _moment(center - spread, column.has_time)
        description["most"] = _moment(center + spread, column.has_time)
        description["has_time"] = column.has_time
        description["may_be_empty"] = column.filled is not None
    return description


def _rounded(number: float, spread: float) -> float:
    """With as many digits as tell it from its neighbours: two of the spread."""
    digits = f"{spread:.1e}"
    exponent = int(digits.partition("e")[2])
    return round(number, 1 - exponent) + 0.0  # no negative zero


def _moment(days: float, has_time: bool) -> str | None:
    """Days since 1970 as a date of ISO 8601, with the minute where the time matters."""
    try:
        moment = _EPOCH + timedelta(days=days)
    except OverflowError:
        return None
    if has_time:
        return moment.isoformat(timespec="minutes")
    return moment.date().isoformat()
