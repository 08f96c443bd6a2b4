import json

import pytest
import torch
from tests.data.preprocess.words import WORDS

from nescio._kinds import InputKind
from nescio.data import Dataset, Table, Texts
from nescio.data.preprocess import (
    ImagePreprocess,
    Preprocess,
    RowPreprocess,
    TextPreprocess,
    input_range_of,
)
from nescio.errors import InputError

IMAGES = ImagePreprocess((3, 4, 4), (0.0,) * 3, (255.0,) * 3, (0.0, 255.0), "crop")
ROWS = RowPreprocess((2,), (0.0, 1.0), (1.0, 2.0))
TEXTS = TextPreprocess(WORDS, 5, "question")


def test_the_kind_of_inputs_decides():
    assert isinstance(Preprocess.fit(torch.zeros(2, 1, 4, 4)), ImagePreprocess)
    assert isinstance(Preprocess.fit(torch.zeros(2, 4)), RowPreprocess)
    assert (IMAGES.kind, ROWS.kind, TEXTS.kind) == (InputKind.IMAGES, InputKind.ROWS, InputKind.TEXTS)


@pytest.mark.parametrize("preprocess", [IMAGES, ROWS, TEXTS])
def test_there_and_back_through_plain_data(preprocess):
    again = Preprocess.from_dict(json.loads(json.dumps(preprocess.to_dict())))
    assert again == preprocess
    assert again.preparation == preprocess.preparation


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 2, 2), ImagePreprocess((1, 2, 2), (0.0,), (255.0,), (0.0, 255.0))),
        ((1,), RowPreprocess((1,), (0.0,), (255.0,))),
    ],
)
def test_as_it_was_before_there_were_kinds(shape, expected):
    before = {"input_shape": shape, "mean": [0.0], "scale": [255.0], "columns": None, "label_position": None}
    before["pixel_range"] = [0.0, 255.0] if len(shape) == 3 else None
    assert Preprocess.from_dict(before) == expected


def test_columns_as_they_were_before_there_were_schemas():
    before = {"input_shape": [2], "mean": [0.0, 0.0], "scale": [1.0, 1.0], "pixel_range": None}
    found = Preprocess.from_dict(before | {"columns": ["a", "b"], "label_position": 1})
    assert (found.schema.names, found.schema.label_position) == (("a", "b"), 1)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"kind": "sounds"},
        {"kind": "rows"},
        {"kind": "images", "input_shape": [1, 2, 2], "mean": [0.0], "scale": [1.0], "depth": 3},
        {"kind": "rows", "input_shape": [1], "mean": [0.0], "scale": [1.0], "schema": {"columns": [3]}},
        {"kind": "texts", "tokenizer": "no JSON", "max_length": 3},
    ],
)
def test_what_does_not_fit_together_is_refused(data):
    with pytest.raises(InputError):
        Preprocess.from_dict(data)


def test_the_range_is_that_of_the_scaled_inputs():
    rows = torch.tensor([[1.0, -2.0], [4.0, 6.0], [2.0, 0.0]])
    fitted = Preprocess.fit(rows)
    out = fitted(rows)
    torch.testing.assert_close(fitted.input_range(input_range_of(rows)), out.amax(0) - out.amin(0))
    images = torch.randint(256, (10, 3, 4, 4), dtype=torch.uint8)
    out = Preprocess.fit(images)(images)
    torch.testing.assert_close(
        Preprocess.fit(images).input_range(input_range_of(images)), out.amax((0, 2, 3)) - out.amin((0, 2, 3))
    )


def test_the_range_of_more_than_a_chunk():
    rows = torch.randn(9000, 2)
    assert torch.equal(input_range_of(rows), rows.amax(0) - rows.amin(0))


def test_the_inputs_of_a_data_set():
    labels = torch.tensor([0, 1])
    images = Dataset(torch.zeros(2, 3, 4, 4, dtype=torch.uint8), labels, ("a", "b"), "pictures")
    rows = Table(torch.eye(2), labels, ("a", "b"), "rows")
    texts = Texts(("hello you", "bye"), labels, ("a", "b"), "talk")
    assert IMAGES.inputs_of(images) is images.images
    assert ROWS.inputs_of(rows) is rows.features
    assert TEXTS.inputs_of(texts).tolist() == [[2, 3, 0, 0, 0], [4, 0, 0, 0, 0]]
    with pytest.raises(InputError, match="talk must hold rows for this model, got texts"):
        ROWS.inputs_of(texts)


@pytest.mark.parametrize("preprocess", [IMAGES, ROWS, TEXTS])
def test_an_example_has_the_shape_of_what_is_prepared(preprocess):
    assert tuple(preprocess.example().shape) == (1, *preprocess.input_shape)
    assert preprocess.example().is_floating_point() == (preprocess is not TEXTS)
