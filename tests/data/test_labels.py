from nescio.data._labels import counted, is_no_label


def test_numbers_by_value_before_names_in_order():
    indices, classes = counted("t", ["b", "10", "9.0", "9", "a"])
    assert classes == ("9", "10", "a", "b")
    assert indices.tolist() == [3, 1, 0, 0, 2]


def test_what_is_no_label():
    assert [is_no_label(text) for text in ("", " ", "nan", " NaN", "0", "none")] == [True] * 4 + [False] * 2
