import json
import warnings

import pytest
import torch

from nescio.data import Row, TableSchema
from nescio.data._columns import CategoryColumn, DateColumn, NumberColumn
from nescio.data._schema import label_column
from nescio.errors import DataError, InputError, NescioWarning

SCHEMA = TableSchema(
    (NumberColumn("size"), CategoryColumn("colour", ("blue", "red"))),
    positions=(1, 2),
    num_columns=4,
    ignored=("id", "constant"),
    label="kind",
    label_position=4,
)


def row(cells, header=None):
    return Row(tuple(cells.split(",")), None if header is None else tuple(header.split(",")), "a.csv, line 2")


def test_columns_are_found_by_name_whatever_their_order():
    expected = [3.0, 0.0, 1.0]
    assert SCHEMA.encode(row("red,3", "colour,size")).tolist() == expected
    assert SCHEMA.encode(row("x,3,red,7,8", "kind,size,colour,id,constant")).tolist() == expected


def test_a_column_that_is_missing_is_named():
    with pytest.raises(DataError, match=r"a.csv, line 2: the model needs the columns size"):
        SCHEMA.encode(row("red,3", "colour,Size"))


def test_columns_that_are_new_are_ignored_and_said_once():
    schema = TableSchema.from_dict(SCHEMA.to_dict())
    new = row("red,3,1", "colour,size,weight")
    with pytest.warns(NescioWarning, match="not trained with are ignored: weight"):
        assert schema.encode(new).tolist() == [3.0, 0.0, 1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert schema.encode(new).tolist() == [3.0, 0.0, 1.0]


def test_without_a_header_by_position_and_the_count_is_checked():
    expected = [3.0, 0.0, 1.0]
    assert SCHEMA.encode(row("7,3,red,8")).tolist() == expected
    assert SCHEMA.encode(row("7,3,red,8,x")).tolist() == expected  # with the label
    for cells in ("3,red", "7,3,red", "7,3,red,8,x,9"):
        with pytest.raises(DataError, match=r"a.csv, line 2: 4 columns expected, got"):
            SCHEMA.encode(row(cells))


def test_a_cell_that_does_not_fit_is_named():
    with pytest.raises(DataError, match=r"a.csv, line 2, column size: a finite number"):
        SCHEMA.encode(row("red,big", "colour,size"))
    with pytest.raises(DataError, match=r"a.csv, line 2, column 2: a finite number"):
        SCHEMA.encode(row("7,big,red,8"))
    with pytest.raises(DataError, match=r"a.csv, line 2: 2 columns expected, got 1"):
        SCHEMA.encode(row("red", "colour,size"))


def test_what_is_measured_is_known():
    assert SCHEMA.features == ("size", "colour = blue", "colour = red")
    assert SCHEMA.measured == (True, False, False)
    assert SCHEMA.num_features == 3


def test_there_and_back_through_json():
    schema = TableSchema((*SCHEMA.columns, DateColumn("day", filled=2.0)), label="kind")
    again = TableSchema.from_dict(json.loads(json.dumps(schema.to_dict())))
    assert again == schema
    assert hash(again) == hash(schema)


def test_numbers_without_names():
    schema = TableSchema.of_numbers(count=2, label_position=0)
    assert not schema.has_names
    assert torch.equal(schema.encode(row("9,1,2")), torch.tensor([1.0, 2.0]))
    assert torch.equal(schema.encode(row("1,2", "x,y")), torch.tensor([1.0, 2.0]))


@pytest.mark.parametrize("position", [-1, 3, 0.5])
def test_a_label_that_can_not_be_there(position):
    with pytest.raises(InputError, match="label_position must be a whole number from 0 to 2"):
        TableSchema.of_numbers(count=2, label_position=position)


def test_columns_that_can_not_be():
    with pytest.raises(InputError, match="columns must be one or more with different names"):
        TableSchema.of_numbers(("a", "a"))
    with pytest.raises(InputError, match="columns must be one or more with different names"):
        TableSchema(())
    with pytest.raises(InputError, match="positions must be one of 2 for each column"):
        TableSchema(SCHEMA.columns, positions=(0, 2))


def test_the_usual_places_of_labels():
    assert label_column(("x", "Target", "y"), 3) == 1
    assert label_column(("x", "z"), 2) == 1
    assert label_column(None, 4) == 3


def test_a_row_can_be_read_again():
    numbers = SCHEMA.encode(row("red,2.5", "colour,size"))
    assert dict(zip(SCHEMA.names, SCHEMA.decode(numbers), strict=True)) == {"size": "2.5", "colour": "red"}
