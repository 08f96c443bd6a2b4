import math

import numpy as np
import pytest

from nescio.data._columns import (
    CategoryColumn,
    DateColumn,
    NumberColumn,
    as_days,
    as_styled_number,
    column_from_dict,
    is_gap,
)
from nescio.errors import DataError, InputError

NUMBER = NumberColumn("age", offset=10.0, filled=1.5)
CATEGORY = CategoryColumn("colour", ("blue", "red"), has_other=True, has_gaps=True)
DATE = DateColumn("day", "day/month/year", origin=19_723.0, has_time=True, filled=3.0)


@pytest.mark.parametrize("cell", ["", "?", "NA", "n/a", "NaN", "null", "None", "-"])
def test_gaps(cell):
    assert is_gap(cell)
    assert not is_gap(f"{cell}x")


@pytest.mark.parametrize(
    ("text", "style", "number"),
    [
        ("1e3", "plain", 1000),
        ("1,234", "plain", None),
        ("1,234", "1,234.5", 1234),
        ("-1,234,567.25", "1,234.5", -1_234_567.25),
        ("12", "1,234.5", 12),
        ("1,23", "1,234.5", None),
        ("1,5", "1.234,5", 1.5),
        ("1.234,5", "1.234,5", 1234.5),
        ("1.2345,5", "1.234,5", None),
    ],
)
def test_styles_of_numbers(text, style, number):
    assert as_styled_number(text, style) == number


@pytest.mark.parametrize(
    ("text", "style", "days"),
    [
        ("1970-01-02", "year-month-day", 1),
        ("1970/1/2", "year-month-day", 1),
        ("1970-01-01T12:00", "year-month-day", 0.5),
        ("1970-01-01 12:00:00.25", "year-month-day", 0.5),
        ("1970-01-01T12:00:00Z", "year-month-day", 0.5),
        ("1970-01-01T12:00:00+06:00", "year-month-day", 0.25),
        ("1970-01-01T12:00:00-0600", "year-month-day", 0.75),
        ("02.01.1970", "day/month/year", 1),
        ("1/2/1970", "month/day/year", 1),
        ("13/1/1970", "month/day/year", None),
        ("1970-02-30", "year-month-day", None),
        ("1970-01-01 25:00", "year-month-day", None),
        ("yesterday", "year-month-day", None),
    ],
)
def test_dates(text, style, days):
    assert as_days(text, style) == days


def test_a_number_and_its_gap():
    assert NumberColumn("age").encode("12.5") == (12.5,)
    assert NUMBER.encode("12.5") == (2.5, 0.0)
    assert NUMBER.encode("?") == (1.5, 1.0)
    assert (NUMBER.features, NUMBER.measured) == (("age", "age is missing"), (True, False))


@pytest.mark.parametrize("cell", ["", "NA", "four", "inf", "1e39", "1" * 400])
def test_what_is_no_number_is_refused(cell):
    with pytest.raises(DataError, match="a finite number expected that float32 can hold"):
        NumberColumn("age").encode(cell)


def test_a_gap_that_training_never_saw_is_said_to_be_one():
    with pytest.raises(DataError, match="got ''; training saw no gap here"):
        NumberColumn("age").encode("")
    with pytest.raises(DataError, match=r"a date expected, .*, got ''; training saw no gap here"):
        DateColumn("day", style="year-month-day").encode("")
    with pytest.raises(DataError, match=r"another text expected, got 'NA'; training saw no gap here"):
        CategoryColumn("colour", ("blue", "red"), has_other=True).encode("NA")


def test_a_category_its_others_and_its_gaps():
    assert CATEGORY.encode("red") == (0, 1, 0, 0)
    assert CATEGORY.encode("green") == (0, 0, 1, 0)
    assert CATEGORY.encode("") == (0, 0, 0, 1)
    assert CATEGORY.encode("RED") == (0, 0, 1, 0)
    assert CategoryColumn("ok", ("false", "true"), folds_case=True).encode("TRUE") == (0, 1)
    assert CategoryColumn("colour", ("blue", "red")).encode("green") == (0, 0)
    assert CategoryColumn("colour", ("blue", "none")).encode("none") == (0, 1)
    assert CATEGORY.takes_gaps
    assert not CategoryColumn("colour", ("blue", "red")).takes_gaps
    assert len(CATEGORY.features) == len(CATEGORY.measured) == 4


def test_a_date():
    encoded = DATE.encode("01.01.2024 18:00")
    assert len(encoded) == len(DATE.features) == len(DATE.measured)
    by_name = dict(zip(DATE.features, encoded, strict=True))
    assert by_name["day in days"] == 0.75
    assert by_name["day on Monday"] == 1.0
    assert sum(value for name, value in by_name.items() if " on " in name) == 1.0
    assert by_name["day in the day (sine)"] == pytest.approx(-1.0)
    angle = math.atan2(by_name["day in the year (sine)"], by_name["day in the year (cosine)"])
    assert abs(angle) < 0.1  # the beginning of a year
    gap = DATE.encode("NA")
    assert (gap[0], sum(gap[1:]), gap[-1]) == (3.0, 1.0, 1.0)
    with pytest.raises(DataError, match="a date expected, day/month/year, got '2024-01-01'"):
        DATE.encode("2024-01-01")
    with pytest.raises(DataError, match="a date expected"):
        DateColumn("day").encode("")


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        (NUMBER, ["1", "2.5", "?", "1"]),
        (CATEGORY, ["red", "green", "", "red"]),
        (DATE, ["1.1.2024", "", "2.1.2024 13:30", "1.1.2024"]),
    ],
)
def test_all_cells_at_once_are_the_same_as_one_by_one(column, cells):
    every = column.encode_all(cells, str)
    assert every.dtype == np.float32
    assert every.tolist() == np.array([column.encode(cell) for cell in cells], np.float32).tolist()


def test_the_first_cell_that_does_not_fit_is_named():
    with pytest.raises(DataError, match="line 3, column age: a finite number expected"):
        NumberColumn("age").encode_all(["1", "2", "x"], lambda row: f"line {row + 1}")


@pytest.mark.parametrize("column", [NUMBER, CATEGORY, DATE])
def test_there_and_back(column):
    assert column_from_dict(column.to_dict()) == column


def test_columns_that_can_not_be():
    with pytest.raises(InputError, match="a column must be one of number, category, date, got 'colour'"):
        column_from_dict({"kind": "colour"})
    with pytest.raises(InputError, match="values must be one or more different texts"):
        CategoryColumn("a", ("x", "x"))
    with pytest.raises(InputError, match="style must be one of"):
        NumberColumn("a", style="Roman")
    with pytest.raises(InputError, match="style must be one of"):
        DateColumn("a", style="Roman")


@pytest.mark.parametrize(
    ("column", "cell", "text"),
    [
        (NumberColumn("age"), "0.1", "0.1"),
        (NumberColumn("age"), "-12", "-12"),
        (NumberColumn("age"), "1234567.5", "1234567.5"),
        (NumberColumn("time", offset=1.7e9), "1700000123", "1700000123"),
        (NUMBER, "11.25", "11.25"),
        (NUMBER, "?", ""),
        (CATEGORY, "red", "red"),
        (CATEGORY, "green", "(another)"),
        (CATEGORY, "", ""),
        (CategoryColumn("colour", ("blue", "red")), "green", "(another)"),
        (DATE, "02/01/2024 06:30", "2024-01-02 06:30"),
        (DATE, "NA", ""),
        (DateColumn("day"), "1999-12-31", "1999-12-31"),
    ],
)
def test_a_cell_can_be_read_again(column, cell, text):
    numbers = np.array(column.encode(cell), np.float32).tolist()
    assert column.decode(numbers) == text


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-05:00", "0001-01-01T00:00:00+01:00"])
def test_moments_beyond_the_calendar_are_no_dates(text):
    assert as_days(text, "year-month-day") is None


def test_days_that_no_calendar_has():
    assert DateColumn("day").decode([1e30, *[0.0] * 9]) == "(no date)"
