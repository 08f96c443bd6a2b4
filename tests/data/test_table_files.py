import io
import json
import sys
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from nescio.data._table_files import ArrowTable, LinesTable, cell_text, cells_of_object, read_table
from nescio.errors import DataError, MissingExtraError


def cells_of(table):
    return [row.cells for row in table.rows(range(len(table)))]


def read(content, suffix=".csv"):
    return read_table(content if isinstance(content, bytes) else content.encode(), f"a{suffix}", suffix)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (float("nan"), ""),
        (np.datetime64("NaT"), ""),
        (pd.NA, ""),
        (True, "true"),
        (np.bool_(False), "false"),
        (12345678901234567890, "12345678901234567890"),
        (2.5, "2.5"),
        (np.float32(0.5), "0.5"),
        (float("-inf"), "-inf"),
        (Decimal("1.10"), "1.10"),
        (" red ", "red"),
        (date(2024, 1, 2), "2024-01-02"),
        (datetime(2024, 1, 2, 3, 4), "2024-01-02 03:04:00"),
    ],
)
def test_values_as_cells(value, text):
    assert cell_text(value) == text


@pytest.mark.parametrize("value", [[1], {"a": 1}, b"x", object()])
def test_what_no_cell_holds(value):
    with pytest.raises(DataError, match="a number, a text, true or false expected, got"):
        cell_text(value)


def test_the_same_table_in_every_format(tmp_path):
    rows = [
        {"x": 1, "y": 0.5, "name": "red", "ok": True, "day": date(2024, 1, 2)},
        {"x": 2, "y": None, "name": "a,b;c", "ok": False, "day": None},
    ]
    as_csv = 'x,y,name,ok,day\n1,0.5,red,true,2024-01-02\n2,,"a,b;c",false,\n'
    as_lines = "\n".join(json.dumps(row, default=str) for row in rows)
    file = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows), file)
    tables = [read(as_csv), read(as_lines, ".jsonl"), read(file.getvalue(), ".parquet")]
    for table in tables:
        assert table.header == ("x", "y", "name", "ok", "day")
        assert cells_of(table) == cells_of(tables[0])
        assert table.column(2) == ["red", "a,b;c"]
        assert table.width == 5


TEXTS = [
    "a,b\n1,2\n3,4\n",
    "1,2\n3,4",
    "a;b\r\n 1 ;2\r\n",
    "\ufeffa\tb\n1\t2\n",
    "x,y\nä,ö\n,\n",
    "x\n1\n\n2\n",
    'x,y\n"1",2\n',
    "x,y\n1\n",
    "x,y\r1,2\r",
    "x,y\n\xa0,\xa0\n1,2\n",
    "x,y\n1,2\n\n",
]


@pytest.mark.parametrize("text", TEXTS)
def test_pyarrow_and_the_csv_module_read_the_same(text, monkeypatch):
    assert_the_same(text, monkeypatch)


@given(
    st.lists(
        st.lists(st.text('ab1 ,;\t"\r\n\x0b\x1c\x85\xa0é', max_size=3), min_size=1, max_size=3),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_pyarrow_and_the_csv_module_read_the_same_of_anything(rows, separator, end):
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert_the_same(end.join(separator.join(row) for row in rows), monkeypatch)


def assert_the_same(text, monkeypatch):
    found = []
    for module in (pa, None):
        monkeypatch.setitem(sys.modules, "pyarrow", module)
        try:
            table = read(text)
            rows = [(row.cells, row.header, row.place) for row in table.rows(range(len(table)))]
            found.append((table.header, rows))
        except DataError as error:
            found.append(str(error))
    assert found[0] == found[1]


def test_plain_files_are_read_by_pyarrow():
    assert isinstance(read("a,b\n1,2\n"), ArrowTable)
    assert isinstance(read('a,b\n"1",2\n'), LinesTable)


def test_lines_that_do_not_fit_have_their_number():
    table = read("a,b\n1,2\n\n3\n")
    assert [len(row.cells) for row in table.rows([0, 1])] == [2, 1]
    assert table.place_of(1) == "a.csv, line 4"
    with pytest.raises(DataError, match=r"a\.csv, line 4: 2 columns expected, got 1"):
        table.column(0)
    assert read("a,b\n1,2\n3,4\n").place_of(1) == "a.csv, line 3"


def test_a_row_of_gaps_is_a_row():
    assert cells_of(read('question\nfirst\n""\nthird\n')) == [("first",), ("",), ("third",)]
    assert cells_of(read("x,y\n1,2\n,\n3,4\n")) == [("1", "2"), ("", ""), ("3", "4")]
    # Blank lines, and what spreadsheets write around a table, are none.
    assert cells_of(read(",\nx,y\n1,2\n\n \n3,4\n,\n , \n")) == [("1", "2"), ("3", "4")]


@pytest.mark.parametrize("text", ['a,b\n1,x\n2,"y\n3,z\n', 'a,b\n1,x\n2,"y', '"a\n1'])
def test_a_quotation_mark_that_nothing_closes_is_named(text):
    number = 1 + text[: text.index('"')].count("\n")
    with pytest.raises(
        DataError, match=f"^a.csv, line {number}: a quotation mark opens a cell here and none"
    ):
        read(text)


def test_quotation_marks_that_stand_anywhere_else():
    assert cells_of(read('a,b\n"1"x,2"\n3,"4"\n')) == [("1x", '2"'), ("3", "4")]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "cp1252", "utf-8-sig"])
@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.filterwarnings("ignore:.*read as Latin-1")
def test_plain_files_in_other_encodings(encoding, end):
    table = read(f"größe;farbe\n1;rot\n2;blau{end}".encode(encoding))
    assert table.header == ("größe", "farbe")
    assert cells_of(table) == [("1", "rot"), ("2", "blau")]


def test_a_cell_of_several_lines():
    table = read('a,b\n"one\ntwo",2\n3,4\n')
    assert (cells_of(table)[0], table.place_of(1)) == (("one\ntwo", "2"), "a.csv, line 4")


def test_json_lines_that_do_not_fit():
    table = read('{"x": 1}\nno JSON\n\n[1]\n{"y": [2]}\n{"y": 3}\n', ".jsonl")
    assert table.header == ("x", "y")
    rows = table.rows(range(len(table)))
    assert (rows[0].cells, rows[4].cells) == (("1", ""), ("", "3"))
    assert str(rows[1]).startswith("a.jsonl, line 2: ")
    assert str(rows[2]).startswith("a.jsonl, line 4: an object expected")
    with pytest.raises(DataError, match="a number, a text, true or false expected, got list"):
        rows[3].cell(1)
    with pytest.raises(DataError, match=r"a\.jsonl, line 2"):
        table.column(0)


@pytest.mark.parametrize(
    ("content", "suffix", "reason"),
    [
        ("", ".csv", r"a\.csv is empty"),
        ("a,b\n", ".csv", r"a\.csv has a header and no rows"),
        ("", ".jsonl", r"a\.jsonl is empty"),
        ("[]\n", ".jsonl", r"a\.jsonl must hold an object with values a line"),
        ("no Parquet", ".parquet", r"a\.parquet is not a Parquet file that can be read"),
    ],
)
def test_what_is_no_table(content, suffix, reason):
    with pytest.raises(DataError, match=reason):
        read(content, suffix)


def test_parquet_with_lists_and_an_index():
    pandas = pytest.importorskip("pandas")
    file = io.BytesIO()
    pandas.DataFrame({"x": [1, 2], "tags": [["a"], []]}, index=[7, 8]).to_parquet(file)
    table = read(file.getvalue(), ".parquet")
    assert table.header == ("x", "tags")
    assert table.column(0) == ["1", "2"]
    with pytest.raises(DataError, match=r"a\.parquet, row 1, column tags: a number, a text"):
        table.column(1)
    (row,) = table.rows([1])
    assert row.cell(0) == "2"  # a column that nobody reads costs nothing
    with pytest.raises(DataError, match="a number, a text"):
        row.cell(1)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_pyarrow_reads_from_memory_of_its_own(suffix, monkeypatch):
    """Python's bytes, let go of by a thread of pyarrow while the process ends, would abort it."""
    file = io.BytesIO(b"a,b\n1,x\n2,y")
    if suffix == ".parquet":
        file = io.BytesIO()
        parquet.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), file)
    content = file.getvalue()
    read_by = {".csv": (arrow_csv, "read_csv"), ".parquet": (parquet, "read_table")}[suffix]
    real = getattr(*read_by)
    addresses = []

    def spied(source, *rest):
        addresses.append(source.read_buffer(len(content)).address)
        source.seek(0)
        return real(source, *rest)

    monkeypatch.setattr(*read_by, spied)
    assert cells_of(read(content, suffix)) == [("1", "x"), ("2", "y")]
    assert len(addresses) == 1
    assert addresses[0] != pa.py_buffer(content).address


def test_parquet_without_pyarrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pyarrow is not installed.*nescio\[tables\]"):
        read(b"PAR1", ".parquet")


def test_an_object_as_cells():
    assert cells_of_object({"a": 1, " b ": None}) == {"a": "1", "b": ""}
    with pytest.raises(DataError, match="an object expected, with the names of columns, got list"):
        cells_of_object([1])


@pytest.mark.parametrize("has_pyarrow", [True, False])
@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("0,1,2,kind\n5,3,1,cat\n4,3,2,dog\n2,3,4,cat\n5,3,2,dog\n", ("0", "1", "2", "kind")),  # of pandas
        (",0,1,kind\n0,3,1,cat\n1,3,2,dog\n", ("", "0", "1", "kind")),
        ("1,2,Label\n7,3,cat\n8,3,dog\n", ("1", "2", "Label")),
        ("0,1,2\n5,3,setosa\n4,2,virginica\n1,2,lucida\n", ("0", "1", "2")),
        ("0,1,2\n5,3,six\n", None),
        ("0,1,Great\n1,0,Bad\n2,1,Nice\n3,0,Bad\n", None),  # a number, a label and a text
        ("Bob,1,2\nAl,3,1\nAl,2,0\nCy,5,1\n", None),
        ("0,1,2,cat\n5,3,1,cat\n4,3,2,dog\n", None),  # a row like the others
        ("0,1,one day\n5,3,a night\n4,3,at noon\n", None),  # each has a text of its own
        ("3,4,kind\n5,3,cat\n4,3,cat\n", None),
        ("0,1,2,cat\n", None),
        ("0,126;-0,132;x\n0,5;0,25;y\n", None),  # numbers all the same
        ("1.234,5;7,25;x\n0,5;0,25;y\n", None),
    ],
)
def test_numbers_in_a_first_line(text, header, has_pyarrow, monkeypatch):
    if not has_pyarrow:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    table = read(text)
    assert isinstance(table, ArrowTable) == has_pyarrow
    assert table.header == header
    assert len(table) == len(text.splitlines()) - (header is not None)
    assert table.place_of(0) == ("a.csv, line 1" if header is None else "a.csv, line 2")
