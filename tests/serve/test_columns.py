"""What the list of models says of the columns of a table."""

import torch

from nescio.data import ImagePreprocess, RowPreprocess, TableSchema
from nescio.data._columns import CategoryColumn, DateColumn, NumberColumn
from nescio.serve._columns import describe_columns


def test_each_column_says_what_is_usual():
    schema = TableSchema(
        (
            NumberColumn("time", offset=1_000_000.0),
            NumberColumn("age", filled=40.0),
            CategoryColumn("colour", ("blue", "red"), has_gaps=True),
            DateColumn("day", style="day/month/year", origin=19_723.0),
            DateColumn("moment", has_time=True, filled=0.0),
        )
    )
    mean = torch.zeros(schema.num_features)
    scale = torch.ones(schema.num_features)
    features = list(schema.features)
    mean[features.index("age")] = 40.04
    scale[features.index("age")] = 12.5
    scale[features.index("day in days")] = 10.0
    mean[features.index("moment in days")] = 365.5
    preprocess = RowPreprocess((schema.num_features,), tuple(mean.tolist()), tuple(scale.tolist()), schema)

    time, age, colour, day, moment = describe_columns(preprocess)
    assert (time["least"], time["usual"], time["most"]) == (999_999, 1_000_000, 1_000_001)
    assert not time["may_be_empty"]
    assert (age["least"], age["usual"], age["most"]) == (28, 40, 53)
    assert age["may_be_empty"]
    assert (colour["kind"], colour["values"], colour["usual"]) == ("category", ["blue", "red"], "blue")
    assert colour["may_be_empty"]
    assert (day["least"], day["usual"], day["most"]) == ("2023-12-22", "2024-01-01", "2024-01-11")
    assert day["style"] == "day/month/year"
    assert (moment["usual"], moment["has_time"]) == ("1971-01-01T12:00", True)
    assert {tuple(column) for column in (time, age, colour, day, moment)} == {tuple(time)}


def test_numbers_are_rounded_to_what_tells_them_apart():
    preprocess = RowPreprocess((2,), (0.000123456, -0.0), (0.00001, 300.0))
    small, zero = describe_columns(preprocess)
    assert (small["name"], small["usual"], small["least"]) == ("1", 0.000123, 0.000113)
    assert str(zero["usual"]) == "0.0"
    assert zero["most"] == 300


def test_a_date_that_no_calendar_has_is_left_out():
    schema = TableSchema((DateColumn("day", origin=19_723.0),))
    scale = (1e9,) + (1.0,) * (schema.num_features - 1)
    preprocess = RowPreprocess((schema.num_features,), (0.0,) * schema.num_features, scale, schema)
    (day,) = describe_columns(preprocess)
    assert (day["least"], day["usual"], day["most"]) == (None, "2024-01-01", None)


def test_pictures_have_no_columns():
    assert describe_columns(ImagePreprocess((1, 2, 2), (0.0,), (255.0,))) is None
