"""Rows and texts of tables."""

import pandas as pd
import pytest
import torch
from tests.data.preprocess.words import WORDS

from nescio.data import (
    ImagePreprocess,
    Preprocess,
    RowPreprocess,
    TableSchema,
    TextPreprocess,
    open_source,
    split,
)
from nescio.errors import DataError, InputError, NescioWarning


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


@pytest.mark.parametrize("cell", ["inf", "1e39", "-1e39"])
def test_csv_with_what_is_no_finite_number(tmp_path, cell):
    (tmp_path / "a.csv").write_text(f"x,z,label\n1,2,a\n3,{cell},b\n")
    with pytest.raises(DataError, match=r"a\.csv, line 3, column z: a finite number expected"):
        from_csv(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a.csv is empty"),
        ("x,label\n", "has a header and no rows"),
        ("label\na\nb\n", "needs a column to learn from beside the labels"),
        ("x,label\n1,a\n2\n", "line 3: 2 columns expected, got 1"),
        ("x,label\n1,a\n2,a\n", "two or more classes"),
        ("x,label\n1,1\n2,1.0\n", "two or more classes"),
        ("x,label\n1,a\n2,\n", r"line 3, column label: a label expected, got ''"),
        ("x,label\n1,a\n2, NaN\n", r"line 3, column label: a label expected, got 'NaN'"),
        ("x,label\n\n1,a\n\ninf,b\n", r"line 5, column x: a finite number"),
        ('x,label\n1,"a\nb"\ninf,b\n', r"line 4, column x: a finite number"),
    ],
)
def test_csv_that_does_not_fit(tmp_path, text, reason):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=reason):
        from_csv(tmp_path / "a.csv")


def test_one_class_is_read_for_a_model(tmp_path):
    (tmp_path / "a.csv").write_text("x,label\n1,a\n2,b\n")
    preprocess = Preprocess.fit(torch.tensor([[1.0], [2.0]]), None, from_csv(tmp_path / "a.csv").schema)
    (tmp_path / "one.csv").write_text("x,label\n1,a\n2,a\n")
    table = open_source(tmp_path / "one.csv").labelled(preprocess)
    assert (table.classes, table.labels.tolist()) == (("a",), [0, 0])


def test_csv_labels_that_are_numbers_are_told_apart_by_value(tmp_path):
    long = ("12345678901234567890", "12345678901234567891")
    rows = ["1", "1.0", "1e0", "2.50", "2.5", *long, "1_0", "b"]
    lines = [f"{number % 2},{row}\n" for number, row in enumerate(rows)]
    (tmp_path / "a.csv").write_text("x,label\n" + "".join(lines))
    table = from_csv(tmp_path / "a.csv")
    assert set(table.classes) == {"1", "2.5", *long, "1_0", "b"}
    assert len(set(table.labels[:3].tolist())) == len(set(table.labels[3:5].tolist())) == 1


def test_csv_blank_lines_and_separators_around_the_table_are_skipped(tmp_path):
    (tmp_path / "a.csv").write_text(" , \nx,label\n\n1,a\n2,b\n,\n")
    assert from_csv(tmp_path / "a.csv").features.tolist() == [[1], [2]]


def test_csv_a_row_of_gaps_within_the_table_has_no_label(tmp_path):
    (tmp_path / "a.csv").write_text("x,label\n1,a\n , \n2,b\n")
    with pytest.raises(DataError, match="line 3, column label: a label expected, got ''"):
        from_csv(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("missing", "how_many"), [([4], "1 of 30 rows has none"), ([4, 9], "2 of 30 rows have none")]
)
def test_rows_without_a_label_say_where_and_what_to_do(missing, how_many):
    lines = [f"{row * row % 7},{'' if row in missing else 'ab'[row % 2]}" for row in range(30)]
    content = ("x,kind\n" + "\n".join(lines)).encode()
    expected = f"a.csv, line 6, column kind: a label expected, got ''; {how_many}: write the label, or remove"
    with pytest.raises(DataError, match=expected):
        open_source("a.csv", content).labelled()


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


def rows_preprocess(content, **options):
    """How a model that was trained on this table brings rows to numbers."""
    table = open_source("known.csv", content, **options).labelled()
    return RowPreprocess.fit(table.features, schema=table.schema)


def test_the_labels_are_where_they_were_in_training():
    preprocess = rows_preprocess(b"outcome,x,calls\na,1,2\nb,3,5\n", label="outcome")
    for content in (b"outcome,x,calls\na,5,6\nb,7,9\n", b"calls,outcome,x\n6,a,5\n9,b,7\n"):
        table = open_source("new.csv", content).labelled(preprocess)
        assert (table.classes, table.features.tolist()) == (("a", "b"), [[5, 6], [7, 9]])
    # Asked for, it is another column; without that of training, one of a usual name is taken.
    both = b"outcome,x,calls,kind\na,5,6,c\nb,7,9,d\n"
    assert open_source("new.csv", both, label="kind").labelled(preprocess).classes == ("c", "d")
    usual = b"Class,x,calls\nc,5,6\nd,7,9\n"
    assert open_source("new.csv", usual).labelled(preprocess).classes == ("c", "d")


def test_a_table_without_the_column_of_the_labels_is_refused():
    expected = (
        r"new.csv has no column 'outcome', which held the labels in training \(--label names another\); its"
    )
    preprocess = rows_preprocess(b"outcome,x,y\na,1,2\nb,3,5\n", label="outcome")
    with pytest.raises(DataError, match=expected + " columns: x, y"):
        open_source("new.csv", b"x,y\n5,6\n7,9\n").labelled(preprocess)


def test_the_labels_of_a_table_without_a_header_are_where_they_were_in_training():
    preprocess = rows_preprocess(b"a,1,2\nb,3,5\n", label="1")
    table = open_source("new.csv", b"a,5,6\nb,7,9\n").labelled(preprocess)
    assert (table.classes, table.features.tolist()) == (("a", "b"), [[5, 6], [7, 9]])
    named = rows_preprocess(b"outcome,x,calls\na,1,2\nb,3,5\n", label="outcome")
    table = open_source("new.csv", b"a,5,6\nb,7,9\n").labelled(named)
    assert (table.classes, table.features.tolist()) == (("a", "b"), [[5, 6], [7, 9]])


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


FLOWERS = """id,colour,height,picked,wild,kind
a1,red,"1,200",2024-05-01,yes,rose
a2,blue,NA,2024-05-02,no,iris
a3,red,800,,Yes,rose
a4,?,950.5,2024-06-01,NO,iris
"""


def test_a_table_as_people_have_it(tmp_path):
    (tmp_path / "flowers.csv").write_text(FLOWERS)
    table = open_source(tmp_path / "flowers.csv", drop=["id"]).labelled()
    assert [column.kind for column in table.schema.columns] == ["category", "number", "date", "category"]
    assert (table.schema.names, table.schema.ignored) == (("colour", "height", "picked", "wild"), ("id",))
    assert (table.schema.label, table.classes) == ("kind", ("iris", "rose"))
    features = dict(zip(table.schema.features, table.features.T.tolist(), strict=True))
    assert features["colour = red"] == [1, 0, 1, 0]
    assert features["colour is missing"] == [0, 0, 0, 1]
    mean = (1200 + 800 + 950.5) / 3
    assert features["height"] == pytest.approx([1200, mean, 800, 950.5])
    assert features["height is missing"] == [0, 1, 0, 0]
    assert features["picked in days"] == pytest.approx([0, 1, 32 / 3, 31])
    assert features["wild = yes"] == [1, 0, 1, 0]


def test_a_model_reads_such_rows_by_name(tmp_path):
    (tmp_path / "flowers.csv").write_text(FLOWERS)
    table = open_source(tmp_path / "flowers.csv", drop=["id"]).labelled()
    preprocess = Preprocess.fit(table.inputs, schema=table.schema)
    again = Preprocess.from_dict(preprocess.to_dict())
    source = open_source("new.csv", b"wild,picked,colour,height\nNO,2024-06-01,?,950.5\nno,,green,1\n")
    known, unseen = (again.prepare(one.value) for one in source.read([0, 1]))
    assert torch.equal(known, table.features[3])
    features = dict(zip(table.schema.features, unseen.tolist(), strict=True))
    assert (features["colour = red"], features["colour = blue"], features["colour is missing"]) == (0, 0, 0)
    assert open_source(tmp_path / "flowers.csv").labelled(again).features.equal(table.features)


def test_a_column_missing_or_new_at_prediction(tmp_path):
    (tmp_path / "flowers.csv").write_text(FLOWERS)
    table = open_source(tmp_path / "flowers.csv", drop=["id"]).labelled()
    preprocess = Preprocess.fit(table.inputs, schema=table.schema)
    missing = open_source("new.csv", b"wild,colour\nno,red\n").read([0])[0].value
    with pytest.raises(DataError, match=r"new\.csv, line 2: the model needs the columns height, picked"):
        preprocess.prepare(missing)
    lines = "wild,picked,colour,height,smell\nno,,red,7,sweet\nno,,red,8,none\n"
    first, second = (one.value for one in open_source("new.csv", lines.encode()).read([0, 1]))
    with pytest.warns(NescioWarning, match="not trained with are ignored: smell"):
        preprocess.prepare(first)
    preprocess.prepare(second)  # it is said once


def made_rows(columns, count=30):
    """A table of so many rows with these columns, names -> row -> cell, one of numbers, and labels."""
    header = ",".join([*columns, "x", "label"])
    lines = [header]
    for row in range(count):
        cells = [*(str(cell(row)) for cell in columns.values()), str(row * row % 7), "ab"[row % 2]]
        lines.append(",".join(cells))
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("column", "cell", "reason"),
    [
        ("Unnamed: 0", lambda row: row, "counts the rows"),
        ("", lambda row: row, "counts the rows"),
        ("whatever", lambda row: row + 1, "counts the rows"),
        ("customer_id", lambda row: 7919 * row % 1009, "is a number of its own for each row"),
        ("id", lambda row: f"key-{row}", "holds 30 different texts in 30 rows; to learn from its texts"),
        ("model", lambda row: "T", "holds nothing but 'T'"),
        ("empty", lambda row: "", "holds nothing"),
    ],
)
def test_what_teaches_nothing_is_dropped_and_said(column, cell, reason):
    content = made_rows({column: cell})
    called = column or "without a name"
    with pytest.warns(NescioWarning, match=f"a.csv: column {called} is dropped: it {reason}"):
        table = open_source("a.csv", content).labelled()
    assert table.schema.names == ("x",)
    assert table.schema.ignored == (column,)
    # A model of it takes the table with the column and without, and says nothing.
    preprocess = Preprocess.fit(table.inputs, schema=table.schema)
    rows = open_source("a.csv", content).read(range(30))
    assert torch.equal(torch.stack([preprocess.prepare(one.value) for one in rows]), table.features)


def test_ten_thousand_categories():
    content = made_rows({"city": lambda row: f"city {row}", "name": lambda row: f"n{row % 150}"}, 10_000)
    with pytest.warns(NescioWarning, match=r"column city is dropped: it holds 10,000 different texts"):
        table = open_source("a.csv", content).labelled()
    name = table.schema.columns[0]
    assert (len(name.values), name.has_other) == (100, True)
    assert table.features.shape == (10_000, 102)
    assert table.features[:, 100].sum() == 10_000 // 150 * 50 + 0  # the fifty rarest of the 150


def test_nothing_but_texts_says_how_to_use_them():
    lines = "\n".join(f"question {row},{'ab'[row % 2]}" for row in range(40))
    content = f"question,intent\n{lines}".encode()
    with pytest.raises(DataError, match=r"needs a column to learn from.*say text='question' \(--text\)"):
        open_source("a.csv", content).labelled()


def test_a_typing_mistake_among_numbers_is_named():
    content = made_rows({"age": lambda row: "12o" if row == 20 else row * 3}, 100)
    with pytest.raises(DataError, match=r"a\.csv, line 22, column age: a number expected.*got '12o'"):
        open_source("a.csv", content).labelled()


def test_times_in_seconds_keep_their_digits():
    content = made_rows({"time": lambda row: 1_700_000_000 + row * row % 50})
    table = open_source("a.csv", content).labelled()
    assert table.features[:, 0].diff().tolist() == [
        float((row + 1) ** 2 % 50 - row**2 % 50) for row in range(29)
    ]


def test_semicolons_with_decimal_commas():
    table = open_source("a.csv", b"x;label\n1,5;a\n1.234,25;b\n").labelled()
    assert table.features.tolist() == [[1.5], [1234.25]]
    # What comes as a number has no style: 0.125 is not 125.
    preprocess = Preprocess.fit(table.features, schema=table.schema)
    numbers = b'{"x": 0.125, "label": "a"}\n{"x": 1234.25, "label": "b"}\n{"x": "1,5", "label": "b"}'
    asked = open_source("b.jsonl", numbers).labelled(preprocess)
    assert asked.features.tolist() == [[0.125], [1234.25], [1.5]]


def test_dates_that_may_be_either_are_said():
    with pytest.warns(NescioWarning, match="column day: dates such as 1/2/2024 are read as month/day/year"):
        open_source("a.csv", b"day,label\n1/2/2024,a\n3/4/2024,b\n").labelled()
    table = open_source("a.csv", b"day,label\n1/2/2024,a\n13/4/2024,b\n").labelled()
    assert table.schema.columns[0].style == "day/month/year"


def test_columns_to_drop():
    content = b"x,z,label\n1,2,a\n3,5,b\n"
    assert open_source("a.csv", content, drop=["z"]).labelled().features.tolist() == [[1], [3]]
    assert open_source("a.csv", b"1,2,a\n3,5,b\n", drop=["2"]).labelled().features.tolist() == [[1], [3]]
    with pytest.raises(InputError, match=r"a.csv has no column 'y'; its columns: x, z, label"):
        open_source("a.csv", content, drop=["y"])
    with pytest.raises(InputError, match="label must be another column than drop and text, got 'x'"):
        open_source("a.csv", content, drop=["x"], label="x")


def test_a_table_without_a_header_is_read_by_position_without_what_was_dropped():
    lines = "\n".join(f"{row},{row * row % 7},{'ab'[row % 2]}" for row in range(30))
    with pytest.warns(NescioWarning, match="column 1 is dropped: it counts the rows"):
        table = open_source("a.csv", lines.encode()).labelled()
    preprocess = Preprocess.fit(table.inputs, schema=table.schema)
    row = open_source("new.csv", b"77,5\n").read([0])[0].value
    assert preprocess.prepare(row).tolist() == [5]
    with pytest.raises(DataError, match="2 columns expected, got 1 columns"):
        preprocess.prepare(open_source("new.csv", b"5\n").read([0])[0].value)


def test_labels_that_are_no_classes():
    content = made_rows({}, 300).replace(b",label", b",other")
    lines = content.decode().splitlines()
    with_price = [lines[0] + ",price"] + [f"{line},{row}.5" for row, line in enumerate(lines[1:])]
    with pytest.raises(DataError, match=r"column price: 300 different labels in 300 rows are no classes"):
        open_source("a.csv", "\n".join(with_price).encode()).labelled()


def test_a_model_of_pictures_says_that_it_takes_no_rows():
    source = open_source("a.csv", b"x,label\n1,a\n2,b\n")
    with pytest.raises(DataError, match="the model takes pictures 1 x 4 x 4, not rows of a table"):
        source.labelled(ImagePreprocess((1, 4, 4), (0.0,), (1.0,)))


QUESTIONS = b"question,number,intent\nhello you,1,greet\n bye ,2,leave\n,3,leave\n"


def test_texts_of_a_column():
    source = open_source("q.csv", QUESTIONS, text="question")
    assert [one.value.content for one in source.read([0, 1])] == ["hello you", "bye"]
    with pytest.warns(NescioWarning, match=r"1 of 3 texts are empty.*; the first: q.csv, line 4"):
        texts = source.labelled()
    assert (texts.texts, texts.labels.tolist()) == (("hello you", "bye"), [0, 1])
    assert (texts.classes, texts.column) == (("greet", "leave"), "question")


def test_a_model_of_texts_finds_its_column():
    preprocess = TextPreprocess(WORDS, 4, "question")
    with pytest.warns(NescioWarning, match="passed over"):
        texts = open_source("q.csv", QUESTIONS).labelled(preprocess)
    assert texts.texts == ("hello you", "bye")
    other = b"words,intent\nhello,greet\nbye,leave\n"
    assert open_source("q.csv", other).labelled(preprocess).texts == ("hello", "bye")
    with pytest.raises(DataError, match=r"q.csv: the model needs the column question; the columns: a, b, c"):
        open_source("q.csv", b"a,b,c\nx,y,z\nx,y,w\n").labelled(preprocess)


def test_the_last_column_is_the_text_and_the_one_before_it_the_label():
    texts = open_source("q.tsv", b"intent\twords\ngreet\thello\nleave\tbye, 1 day\n", text="words").labelled()
    assert (texts.texts, texts.classes) == (("hello", "bye, 1 day"), ("greet", "leave"))


def test_texts_that_can_not_be():
    with pytest.raises(DataError, match=r"q.csv, column text: all texts are empty"):
        open_source("q.csv", b"text,label\n,a\n,b\n", text="text").labelled()
    ragged = open_source("q.csv", b"text,label\nhello,a\nbye\n", text="text")
    assert [one.error for one in ragged.read([0, 1])] == [None, "q.csv, line 3: 2 columns expected, got 1"]


def test_a_text_of_a_megabyte_in_a_cell():
    content = ("text,label\n" + '"' + "bye " * 250_000 + '",a\nhello,b\n').encode()
    assert len(open_source("q.csv", content, text="text").labelled().texts[0]) == 999_999


def test_a_column_that_a_split_keeps_together():
    lines = [f"{row * row % 7},p{row // 5},{'ab'[row % 2]}" for row in range(40)]
    content = ("x,patient,label\n" + "\n".join(lines)).encode()
    table = open_source("a.csv", content, group="patient").labelled()
    assert table.schema.names == ("x",)
    assert table.groups.tolist() == [row // 5 for row in range(40)]
    rest, held_out = split(table, 0.25, seed=0)
    assert set(rest.groups.tolist()).isdisjoint(held_out.groups.tolist())
    again = open_source("a.csv", content, group="patient").labelled(
        Preprocess.fit(table.features, schema=table.schema)
    )
    assert torch.equal(again.features, table.features)
    assert (again.schema, again.groups.tolist()) == (table.schema, table.groups.tolist())
    texts = open_source("a.csv", b"q,who,label\nhi,a,x\n,b,y\nbye,c,y\n", text="q", group="who")
    with pytest.warns(NescioWarning, match="passed over"):
        assert texts.labelled().groups.tolist() == [0, 2]


def test_a_column_that_says_what_is_held_out():
    content = b"x,split,label\n1,train,a\n5,Train,b\n2,test,a\n7,val,b\n"
    table = open_source("a.csv", content).labelled()
    assert (table.schema.names, table.schema.ignored) == (("x",), ("split",))
    rest, held_out = split(table, 0.5, seed=0)
    assert (rest.features.tolist(), held_out.features.tolist()) == ([[1], [5], [7]], [[2]])
    assert (
        open_source("a.csv", content)
        .labelled(Preprocess.fit(table.features, schema=table.schema))
        .parts.tolist()
        == table.parts.tolist()
    )
    other = open_source("a.csv", b"x,split,label\n1,left,a\n5,test,b\n").labelled()
    assert (other.schema.names, other.parts) == (("x", "split"), None)


def test_the_column_that_says_what_is_held_out_is_not_taken_for_the_labels():
    table = open_source("a.csv", b"x,kind,split\n1,a,train\n5,b,train\n2,a,test\n").labelled()
    assert (table.classes, table.schema.names) == (("a", "b"), ("x",))
    assert table.parts.tolist() == [0, 0, 2]


def test_a_column_of_texts_with_commas():
    preprocess = TextPreprocess(WORDS, 4, "text")
    (one,) = open_source("q.csv", b"text\nhello, you\n").read([0])
    with pytest.raises(DataError, match=r"q.csv, line 2: 1 columns expected, got 2"):
        preprocess.prepare(one.value)
    (one,) = open_source("q.tsv", b"text\nhello, you\n").read([0])
    assert one.value.cells == ("hello, you",)


def test_a_label_that_is_the_column_of_a_model_s_texts():
    with pytest.raises(InputError, match=r"label must be another column than drop and text, got 'question'"):
        open_source("q.csv", QUESTIONS, label="question").labelled(TextPreprocess(WORDS, 4, "question"))


@pytest.mark.parametrize("option", [{"drop": ["notes"]}, {"group": "notes"}])
def test_a_column_with_another_task_does_not_hold_the_labels(tmp_path, option):
    path = tmp_path / "t.csv"
    lines = [f"{i % 7},{i % 5},{'ab'[i % 2]},{'xy'[i % 3 % 2]}" for i in range(30)]
    path.write_text("\n".join(["a,b,species,notes", *lines]))
    table = open_source(path, **option).labelled()
    assert table.classes == ("a", "b")
    assert table.schema.names == ("a", "b")


def test_no_column_is_left_for_the_labels(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,label\n1,x\n2,y\n")
    with pytest.raises(DataError, match="has no column left for the labels"):
        open_source(path, drop=["a", "label"]).labelled()


def test_columns_of_one_name(tmp_path):
    """What is to be left out is left out twice; what is to be one column must be one."""
    path = tmp_path / "t.csv"
    lines = [f"{i % 2},{i % 7},{i % 2},{'ab'[i % 2]}" for i in range(30)]
    path.write_text("\n".join(["leak,b,leak,kind", *lines]))
    assert open_source(path, drop=["leak"]).labelled().features.shape == (30, 1)
    for option in ("label", "text", "group"):
        with pytest.raises(InputError, match=f"{option} must be one column, 2 are 'leak'"):
            open_source(path, **{option: "leak"})
    path.write_text("\n".join(["label,b,label,kind", *lines]))
    with pytest.raises(InputError, match="label must be one column, 2 are 'label'"):
        open_source(path).labelled()


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_column_of_lists_that_is_left_out_costs_nothing(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    frame = pd.DataFrame({"x": [i % 7 for i in range(30)], "tags": [["a"]] * 30, "kind": ["a", "b"] * 15})
    if suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_parquet(path)
    with pytest.raises(DataError, match="column tags: a number, a text, true or false expected, got list"):
        open_source(path).labelled()
    source = open_source(path, drop=["tags"])
    table = source.labelled()
    assert table.schema.names == ("x",)
    preprocess = RowPreprocess((1,), (0.0,), (1.0,), table.schema)
    assert preprocess.prepare(open_source(path).read([3])[0].value).tolist() == [3.0]
    texts = open_source(path, text="tags").read([0])
    assert texts[0].error.endswith("got list")


def test_a_header_with_a_usual_name_tells_where_the_labels_are_though_training_had_none():
    trained = open_source("known.csv", b"a,1,2\nb,3,5\n", label="1").labelled()
    preprocess = RowPreprocess.fit(trained.features, schema=trained.schema)
    new = open_source("new.csv", b"x,z,label\n5,6,a\n7,9,b\n").labelled(preprocess)
    assert new.classes == ("a", "b")
    assert new.features.tolist() == [[5.0, 6.0], [7.0, 9.0]]
    same = open_source("new.csv", b"p,x,z\na,5,6\nb,7,9\n").labelled(preprocess)
    assert same.classes == ("a", "b")
