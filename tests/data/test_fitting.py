import numpy as np
import pandas as pd
import pytest
import torch

from nescio.data import open_source
from nescio.data._fitting import FrameContent, encode_frame, fit_frame, is_mixed_frame
from nescio.errors import DataError, InputError, NescioWarning

FRAME = pd.DataFrame(
    {
        "height": [1.5, None, 3.0, 4.0],
        "colour": pd.Categorical(["red", "blue", None, "red"]),
        "picked": pd.to_datetime(["2024-01-01", "2024-01-03", None, "2024-01-02"]),
        "wild": [True, False, True, True],
        "petals": [5, 6, 7, 5],
    }
)


def test_a_frame_is_read_as_the_same_table_in_a_file(tmp_path):
    FRAME.assign(label=list("abab")).to_csv(tmp_path / "a.csv", index=False)
    table = open_source(tmp_path / "a.csv").labelled()
    schema, features = fit_frame(FRAME)
    assert schema.columns == table.schema.columns
    assert torch.equal(features, table.features)
    assert torch.equal(encode_frame(FRAME, schema), features)
    other_order = FRAME[["petals", "wild", "picked", "colour", "height"]]
    assert torch.equal(encode_frame(other_order, schema), features)


def test_what_does_not_fit_is_named():
    schema, _ = fit_frame(FRAME)
    with pytest.raises(DataError, match="X: the model needs the columns height, wild"):
        encode_frame(FRAME.drop(columns=["height", "wild"]), schema)
    with pytest.raises(DataError, match="X, row 2, column petals: a finite number"):
        encode_frame(FRAME.assign(petals=["5", "many", "6", "7"]), schema)
    with pytest.raises(DataError, match="X, column tags: a number, a text"):
        fit_frame(FRAME.assign(tags=[[1], [2], [3], [4]]))
    with pytest.raises(InputError, match="X must have columns of different names"):
        FrameContent(pd.concat([FRAME, FRAME], axis=1))


def test_what_teaches_nothing_is_dropped_and_said():
    with pytest.warns(NescioWarning, match="X: column model is dropped: it holds nothing but 'T'"):
        schema, features = fit_frame(FRAME[["petals"]].assign(model="T"))
    assert (schema.names, schema.ignored, features.shape) == (("petals",), ("model",), (4, 1))


def test_which_frames_are_more_than_numbers():
    assert is_mixed_frame(FRAME)
    assert is_mixed_frame(FRAME[["height"]])
    assert not is_mixed_frame(FRAME[["wild", "petals"]])
    assert not is_mixed_frame(np.zeros((2, 2)))
    assert not is_mixed_frame([["a"]])


def test_rows_of_a_frame():
    content = FrameContent(FRAME)
    assert (len(content), content.width) == (4, 5)
    (row,) = content.rows([1])
    assert (row.cells, row.place) == (("", "blue", "2024-01-03 00:00:00", "false", "6"), "X, row 2")
