"""Rows of .csv files."""

import pytest
import torch

from nescio.data import Preprocess, RowPreprocess, TableSchema, open_source
from nescio.errors import DataError, InputError


def from_csv(path, label=None):
    return open_source(path, label=label).labelled()


def test_a_column_called_label_holds_the_labels_though_there_is_a_y(tmp_path):
    path = tmp_path / "points.csv"
    path.write_text("x,y,label\n1,2,near\n3,4,far\n")
    data = open_source(path).labelled()
    assert data.classes == ("far", "near")
    assert data.features.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_csv_with_named_and_last_label_column(tmp_path):
    (tmp_path / "a.csv").write_text("label,x,y2\n10,1,2\n9,3,4\n")
    table = from_csv(tmp_path / "a.csv")
    assert table.features.tolist() == [[1, 2], [3, 4]]
    assert (table.classes, table.labels.tolist()) == (("9", "10"), [1, 0])
    (tmp_path / "b.csv").write_text("x,kind\n1,cat\n2,dog\n")
    assert from_csv(tmp_path / "b.csv").classes == ("cat", "dog")
    assert from_csv(tmp_path / "a.csv", label="x").classes == ("1", "3")


@pytest.mark.parametrize("cell", ["nan", "inf", "", "four", "1e39", "-1e39"])
def test_csv_with_what_is_no_finite_number(tmp_path, cell):
    (tmp_path / "a.csv").write_text(f"x,z,label\n1,2,a\n3,{cell},b\n")
    with pytest.raises(DataError, match=r"a\.csv, line 3, column z: a finite number expected"):
        from_csv(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a.csv is empty"),
        ("x,label\n", "has a header and no rows"),
        ("label\na\nb\n", "needs a column of numbers beside the labels"),
        ("x,label\n1,a\n2\n", "line 3: 2 columns expected, got 1"),
        ("x,label\n1,a\n2,a\n", "two or more classes"),
        ("x,label\n1,1\n2,1.0\n", "two or more classes"),
        ("x,label\n1,a\n2,\n", r"line 3, column label: a label expected, got ''"),
        ("x,label\n1,a\n2, NaN\n", r"line 3, column label: a label expected, got 'NaN'"),
        ("x,label\n\n1,a\n , \nfour,b\n", r"line 5, column x: a finite number"),
        ('x,label\n1,"a\nb"\nfour,b\n', r"line 4, column x: a finite number"),
    ],
)
def test_csv_that_does_not_fit(tmp_path, text, reason):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=reason):
        from_csv(tmp_path / "a.csv")


def test_csv_labels_that_are_numbers_are_told_apart_by_value(tmp_path):
    long = ("12345678901234567890", "12345678901234567891")
    rows = ["1", "1.0", "1e0", "2.50", "2.5", *long, "1_0", "b"]
    (tmp_path / "a.csv").write_text("x,label\n" + "".join(f"0,{row}\n" for row in rows))
    table = from_csv(tmp_path / "a.csv")
    assert set(table.classes) == {"1", "2.5", *long, "1_0", "b"}
    assert len(set(table.labels[:3].tolist())) == len(set(table.labels[3:5].tolist())) == 1


def test_csv_rows_of_blanks_are_skipped(tmp_path):
    (tmp_path / "a.csv").write_text("x,label\n\n1,a\n , \n2,b\n,\n")
    assert from_csv(tmp_path / "a.csv").features.tolist() == [[1], [2]]


def test_csv_without_the_column_asked_for(tmp_path):
    (tmp_path / "a.csv").write_text("x,label\n1,a\n2,b\n")
    with pytest.raises(InputError, match="no column 'kind'; its columns: x, label"):
        from_csv(tmp_path / "a.csv", label="kind")


def test_csv_that_is_binary(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="can't be read"):
        from_csv(tmp_path / "a.csv")


def rows_of(text, width, columns=None):
    """All rows of a table, as a model of this width gets them."""
    schema = TableSchema.of_numbers(columns, width)
    preprocess = RowPreprocess((width,), (0.0,) * width, (1.0,) * width, schema)
    source = open_source("a.csv", text.encode())
    return [preprocess.prepare(one.value).tolist() for one in source.read(range(len(source)))]


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,2\n3,4\n",
        "a,label,b\n1,x,2\n3,y,4\n",
        "a,b,kind\n1,2,\n3,4,x\n",
        "1,2\n3,4\n",
        "1,2,cat\n3,4,dog\n",
        "\ufeffa,b\r\n1,2\r\n\r\n3,4",
        '"a","b"\n"1"," 2 "\n3,4\n',
        "a;b\n1;2\n3;4\n",
        "a\tb\n1\t2\n3\t4\n",
        '"a;x",b\n1,2\n3,4\n',
    ],
)
def test_rows_with_a_header_or_without_whatever_separates_them(text):
    assert rows_of(text, 2) == [[1, 2], [3, 4]]


def test_one_column():
    assert rows_of("a\n1\n3\n", 1) == [[1], [3]]


def test_columns_are_found_by_their_names():
    assert rows_of("id,b,label,a\n7,2,x,1\n8,4,y,3\n", 2, ("a", "b")) == [[1, 2], [3, 4]]
    assert rows_of("1,2\n3,4\n", 2, ("a", "b")) == [[1, 2], [3, 4]]
    with pytest.raises(DataError, match="line 2: the model needs the columns a"):
        rows_of("x,b\n1,2\n", 2, ("a", "b"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a,b,c,d\n1,2,3,4\n", "a.csv, line 2: 2 columns expected, got 4 columns"),
        ("a\n1\n", "2 columns expected, got 1 columns"),
        ("a,b\n1,x\n", "a.csv, line 2, column b: a finite number expected"),
        ("1,x\n", "a.csv, line 1, column 2: a finite number expected"),
        ("a,b\n1,nan\n", "a finite number expected that float32 can hold, got 'nan'"),
        ("a;b\n1,5;2\n", "line 2, column a: a finite number expected that float32 can hold, got '1,5'"),
        ("a,b\n1,2\n3\n", "a.csv, line 3: 2 columns expected, got 1"),
        ("a,b\n", "a.csv has a header and no rows"),
        ("\n \n", "a.csv is empty"),
    ],
)
def test_rows_that_do_not_fit(text, reason):
    with pytest.raises(DataError, match=reason):
        rows_of(text, 2)


def test_rows_are_named_by_their_number_without_the_header():
    source = open_source("t/a.csv", b"a,b\n\n1,2\n3,4\n")
    assert [one.name for one in source.read([1, 0])] == ["t/a.csv:2", "t/a.csv:1"]
    assert source.fingerprint() != open_source("t/a.csv", b"a,b\n1,2\n3,4\n").fingerprint()


def test_a_table_without_a_header_is_trained_on_whole(tmp_path):
    (tmp_path / "a.csv").write_text("1,2,0\n3,4,1\n5,6,1\n")
    table = from_csv(tmp_path / "a.csv")
    assert table.features.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert (table.labels.tolist(), table.schema.has_names) == ([0, 1, 1], False)
    assert from_csv(tmp_path / "a.csv", label="1").classes == ("1", "3", "5")
    with pytest.raises(InputError, match="has no header: label must be 1 to 3, got 'kind'"):
        from_csv(tmp_path / "a.csv", label="kind")


def test_the_names_of_columns_are_kept_where_they_differ(tmp_path):
    (tmp_path / "a.csv").write_text("x,label,y2\n1,a,2\n3,b,4\n")
    assert from_csv(tmp_path / "a.csv").schema.names == ("x", "y2")
    (tmp_path / "b.csv").write_text("x,label,x\n1,a,2\n3,b,4\n")
    assert not from_csv(tmp_path / "b.csv").schema.has_names


def test_a_model_gets_its_columns(tmp_path):
    (tmp_path / "a.csv").write_text("y,kind,x\n1,a,2\n3,b,4\n")
    preprocess = RowPreprocess((2,), (0.0,) * 2, (1.0,) * 2, TableSchema.of_numbers(("x", "y")))
    data = open_source(tmp_path / "a.csv", label="kind").labelled(preprocess)
    assert torch.equal(data.features, torch.tensor([[2.0, 1], [4, 3]]))


@pytest.mark.parametrize("header", ["", "x,y,x,z\n"])
def test_the_label_of_a_row_is_where_it_was_in_training(tmp_path, header):
    path = tmp_path / "a.csv"
    path.write_text(f"{header}0,1,2,3\n1,4,5,6\n")
    label = "z" if header else "1"
    table = from_csv(path, label=label)
    preprocess = Preprocess.fit(table.inputs, schema=table.schema)
    rows = [preprocess.prepare(one.value) for one in open_source(path).read([0, 1])]
    assert torch.equal(torch.stack(rows), table.inputs)


def test_a_named_label_has_its_place_in_rows_without_a_header(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("label,x,z\n0,1,2\n1,3,4\n")
    table = from_csv(path)
    preprocess = Preprocess.fit(table.inputs, schema=table.schema)
    row = open_source("new.csv", b"1,5,6\n").read([0])[0].value
    assert preprocess.prepare(row).tolist() == [5, 6]


def test_a_guessed_last_label_gives_way_to_a_header(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("1,2,0\n3,4,1\n")
    assert from_csv(path).schema.label_position is None


def test_a_surplus_column_without_names_is_refused(tmp_path):
    (tmp_path / "known.csv").write_text("1,2,a\n3,4,b\n")
    (tmp_path / "wide.csv").write_text("1,2,9,a\n3,4,9,b\n")
    (tmp_path / "same.csv").write_text("5,6,a\n7,8,b\n")
    known = open_source(tmp_path / "known.csv").labelled()
    preprocess = RowPreprocess.fit(known.features, schema=known.schema)
    assert open_source(tmp_path / "same.csv").labelled(preprocess).features.tolist() == [[5, 6], [7, 8]]
    expected = "wide.csv: 2 columns beside the labels expected, got 3; the labels were taken from column 4"
    with pytest.raises(DataError, match=expected):
        open_source(tmp_path / "wide.csv").labelled(preprocess)
