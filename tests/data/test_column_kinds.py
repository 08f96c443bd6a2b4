import pytest

from nescio.data._column_kinds import Dropped, infer_column
from nescio.data._columns import CategoryColumn, DateColumn, NumberColumn
from nescio.errors import DataError, NescioWarning


def infer(*cells, name="a", is_first=False):
    return infer_column(name, cells, lambda row: f"line {row + 1}", is_first)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("1", "2.5"), NumberColumn("a")),
        (("1", "", "4"), NumberColumn("a", filled=2.5)),
        (("1,200", "NA", "800"), NumberColumn("a", filled=1000.0, style="1,234.5")),
        (("1,5", "2"), NumberColumn("a", style="1.234,5")),
        (("1700000000", "1700000002"), NumberColumn("a", offset=1_700_000_001.0)),
        # What float32 can't hold is refused when it is encoded; squared it would overflow here.
        (("1", "", "1e200", "4"), NumberColumn("a", filled=2.5)),
        (("true", "FALSE"), CategoryColumn("a", ("false", "true"), folds_case=True)),
        (("yes", "", "No"), CategoryColumn("a", ("no", "yes"), has_gaps=True, folds_case=True)),
        (("red", "blue", "red"), CategoryColumn("a", ("blue", "red"))),
        (("red", "?", "red"), CategoryColumn("a", ("red",), has_gaps=True)),
        (("1", "four"), CategoryColumn("a", ("1", "four"))),
        (("2024-01-01", "2024-01-03"), DateColumn("a", origin=19_723.0)),
        (("2024-01-01 06:00", "null"), DateColumn("a", origin=19_723.0, has_time=True, filled=0.25)),
        (("31.12.2023", "1.1.2024"), DateColumn("a", "day/month/year", origin=19_722.0)),
        (("7", "7", "7"), Dropped("a", "holds nothing but '7'")),
        (("", "NA"), Dropped("a", "holds nothing")),
    ],
)
def test_what_a_column_holds(cells, expected):
    assert infer(*cells) == expected


def test_few_rows_count_nothing_but_by_their_name():
    assert isinstance(infer("0", "1", "2"), NumberColumn)
    assert isinstance(infer("0", "1", "2", name="Unnamed: 0"), Dropped)
    assert isinstance(infer("0", "1", "2", is_first=True), NumberColumn)
    assert isinstance(infer(*map(str, range(20)), is_first=True), Dropped)
    assert isinstance(infer(*map(str, range(20))), NumberColumn)
    assert isinstance(infer(*map(str, range(5, 25)), is_first=True), NumberColumn)


@pytest.mark.parametrize("name", ["id", "ID", "customer_id", "customerId", "uuid", "order id"])
def test_names_of_identifiers(name):
    cells = [str(37 * row % 101) for row in range(40)]
    assert isinstance(infer(*cells, name=name), Dropped)
    assert isinstance(infer(*cells, name="humid"), NumberColumn)
    assert isinstance(infer(*cells[:-1], cells[0], name=name), NumberColumn)  # one comes twice


def test_the_most_frequent_categories_have_a_place():
    cells = [f"c{number:03}" for number in range(120) for _ in range(1 + number // 20)]
    column = infer(*cells)
    assert column.values == tuple(f"c{number:03}" for number in range(20, 120))
    assert column.has_other


def test_texts_that_all_differ_are_no_categories():
    texts = [f"text {number}" for number in range(200)]
    assert infer(*texts).is_text
    assert infer(*texts, *texts[:150]).is_text
    assert isinstance(infer(*texts, *texts), CategoryColumn)
    assert isinstance(infer(*texts[:10]), CategoryColumn)


def test_a_mistake_among_numbers():
    numbers = [str(number * 3) for number in range(50)]
    with pytest.raises(DataError, match="line 51, column a: a number expected as in the other rows, got 'x'"):
        infer(*numbers, "x")


def test_dates_that_may_be_either():
    with pytest.warns(NescioWarning, match="read as month/day/year"):
        assert infer("1/2/2024", "2/3/2024").style == "month/day/year"
