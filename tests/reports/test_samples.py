import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image
from tests.reports.cases import corners, images, trained

from nescio.data import StoredArray, Table, Texts
from nescio.opinions import Opinion
from nescio.reports import _samples as samples
from nescio.reports._results import measure


@pytest.fixture(scope="module")
def model():
    return trained(corners())


def results_of(model, count):
    evidence = torch.tensor([[8.0, 0.0, 0.0], [0.0, 1.0, 0.0]]).repeat(count, 1)[:count]
    return measure(model, Opinion(evidence), torch.zeros(count, dtype=torch.int64), None)


def shown(model, data, positions):
    classes = ("red", "green", "blue")
    return samples.samples_at(data, results_of(model, len(data)), classes, torch.tensor(positions))


def test_what_the_model_says_of_each(model):
    wrong, right = shown(model, corners(8), [5, 2])
    assert (right.truth, right.answer, right.is_right, right.is_accepted) == ("red", "red", True, True)
    assert right.probability == pytest.approx(9 / 11)
    assert right.uncertainty == pytest.approx(3 / 11)
    assert (wrong.truth, wrong.answer, wrong.is_right, wrong.is_accepted) == ("red", "green", False, False)


def test_rows_are_cells_by_column(model):
    data = Table(torch.tensor([[1.5, -0.123456789, 3.0]]), torch.tensor([0]), ("red", "green", "blue"), "row")
    (sample,) = shown(model, data, [0])
    assert sample.cells == ("1.5", "-0.12346", "3")
    assert samples.column_names(data) == ("1", "2", "3")


def test_only_the_first_of_many_columns(model):
    data = Table(torch.ones(1, 40), torch.tensor([0]), ("red", "green", "blue"), "wide")
    (sample,) = shown(model, data, [0])
    assert len(sample.cells) == len(samples.column_names(data)) == 12
    assert samples.count_columns(data) == 40


def test_texts_are_shortened(model):
    data = Texts(("one\n two", "word " * 1000), torch.tensor([0, 0]), ("red", "green", "blue"), "talk")
    first, second = shown(model, data, [0, 1])
    assert first.text == "one two"
    assert len(second.text) <= 280
    assert second.text.endswith("word…")
    assert samples.column_names(data) == ()
    assert samples.count_columns(data) == 0


def pixels(png):
    return np.array(Image.open(io.BytesIO(png)))


def test_images_are_thumbnails(model):
    data = images(6)
    (sample,) = shown(model, data, [1])
    content = base64.b64decode(sample.address.removeprefix("data:image/png;base64,"))
    assert content == sample.picture
    assert pixels(content).shape == (128, 128, 3)
    assert pixels(content)[60, 60].tolist() == [0, 200, 0]


def test_images_on_the_disk(model, tmp_path):
    stored = StoredArray.write(tmp_path / "images.npy", images(6).images)
    data = images(6)
    on_disk = type(data)(stored, data.labels, data.classes, data.name)
    assert shown(model, on_disk, [4, 1]) == shown(model, data, [4, 1])


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 28, 28), (112, 112)),
        ((3, 1, 1), (128, 128, 3)),
        ((3, 64, 100), (64, 100, 3)),
        ((3, 600, 300), (128, 64, 3)),
        ((2, 100, 100), (100, 100)),
        ((5, 100, 100), (100, 100, 3)),
        ((1, 1, 2000), (1, 128)),
    ],
)
def test_thumbnails_of_any_size(shape, expected):
    assert pixels(samples.thumbnail(torch.full(shape, 7, dtype=torch.uint8))).shape == expected
