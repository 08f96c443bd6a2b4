import pytest
import torch

from nescio.data import Row, TableSchema, Text
from nescio.data._columns import CategoryColumn, NumberColumn
from nescio.data.preprocess import Preprocess, RowPreprocess
from nescio.errors import DataError, InputError


def test_mean_zero_and_scale_one_for_each_column():
    inputs = torch.randn(5000, 3, dtype=torch.float64) * 7 + 3
    out = Preprocess.fit(inputs)(inputs)
    torch.testing.assert_close(out.mean(0), torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(out.std(0, correction=0), torch.ones(3, dtype=torch.float64))


def test_a_weight_counts_like_repetition():
    inputs = torch.randn(6, 2, dtype=torch.float64)
    weights = torch.tensor([1.0, 0, 2, 1, 3, 0])
    repeated = inputs.repeat_interleave(weights.long(), 0)
    assert Preprocess.fit(inputs, weights).mean == pytest.approx(Preprocess.fit(repeated).mean)
    assert Preprocess.fit(inputs, weights).scale == pytest.approx(Preprocess.fit(repeated).scale)


def test_what_never_changes_is_left_alone():
    fitted = Preprocess.fit(torch.tensor([[0.1, 1.0], [0.1, 2.0], [0.1, 3.0]]))
    assert fitted.scale[0] == 1.0
    assert fitted(torch.tensor([[0.1, 2.0]])).abs().max() < 1e-6


def test_the_unit_of_a_column_does_not_matter():
    rows = torch.randn(50, 2, generator=torch.Generator().manual_seed(0)).double()
    fitted = Preprocess.fit(rows * 1e-13)
    torch.testing.assert_close(fitted(rows * 1e-13), Preprocess.fit(rows)(rows))


def test_categories_are_not_scaled():
    schema = TableSchema((NumberColumn("size"), CategoryColumn("colour", ("blue", "red"))))
    rows = torch.tensor([[2.0, 1.0, 0.0], [4.0, 1.0, 0.0], [6.0, 0.0, 1.0]])
    fitted = Preprocess.fit(rows, schema=schema)
    assert (fitted.mean[1:], fitted.scale[1:]) == ((0.0, 0.0), (1.0, 1.0))
    assert fitted.mean[0] == pytest.approx(4.0)
    row = Row(("red", "6", "7"), ("colour", "size", "label"), "new.csv, line 2")
    assert torch.equal(fitted.prepare(row), rows[2])


@pytest.mark.parametrize("scale", [(0.0,), (-1.0,), (float("nan"),), (1.0, 1.0)])
def test_scales_that_can_not_be(scale):
    with pytest.raises(InputError, match="scale must be one positive number for each mean"):
        RowPreprocess((1,), (0.0,), scale)


def test_a_mean_that_can_not_be():
    with pytest.raises(InputError, match="mean must be finite"):
        RowPreprocess((1,), (float("nan"),), (1.0,))


def test_a_schema_of_another_width():
    with pytest.raises(InputError, match=r"columns of 3 features do not fit inputs \(2,\)"):
        RowPreprocess((2,), (0.0,) * 2, (1.0,) * 2, TableSchema.of_numbers(("a", "b", "c")))


def test_what_is_no_row_is_refused():
    preprocess = RowPreprocess((2,), (0.0,) * 2, (1.0,) * 2)
    with pytest.raises(DataError, match="the model takes rows of 2 numbers, not texts"):
        preprocess.prepare(Text("hello", "a text"))
    with pytest.raises(DataError, match="must be 2 numbers, got 3"):
        preprocess.prepare(torch.zeros(3))
    with pytest.raises(DataError, match="not finite"):
        preprocess.prepare(torch.tensor([0.0, float("inf")]))


def test_numbers_of_which_differences_are_kept_come_by_the_names_of_columns():
    schema = TableSchema((NumberColumn("time", offset=1.7e9), NumberColumn("value")), has_names=True)
    preprocess = RowPreprocess((2,), (0.0,) * 2, (1.0,) * 2, schema)
    row = Row(("1700000003", "2"), ("time", "value"), "line 2")
    assert preprocess.prepare(row).tolist() == [3.0, 2.0]
    with pytest.raises(DataError, match="too few digits for the numbers of time; give rows by the names"):
        preprocess.prepare(torch.tensor([1.7e9, 2.0]))
