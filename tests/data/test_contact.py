import numpy as np
import pytest
import torch
from PIL import ImageFont

from nescio.data import Dataset, contact_sheet
from nescio.data._contact import _printable, as_picture
from nescio.errors import InputError


def test_each_class_has_its_row_in_its_colours():
    images = torch.zeros(4, 3, 24, 24, dtype=torch.uint8)
    images[2:, 0] = 255  # the second class is red
    sheet = np.asarray(
        contact_sheet(Dataset(images, torch.tensor([0, 0, 1, 1]), ("ink", "red"), "d"), columns=2)
    )
    red = (sheet == [255, 0, 0]).all(2)
    black = (sheet[:, -100:] == 0).all(2)  # right of the names, which are black too
    assert red.sum() == black.sum() == 2 * 48 * 48
    assert np.argwhere(red)[:, 0].min() > np.argwhere(black)[:, 0].max()


def test_many_classes_are_thinned_out_and_odd_names_spelt():
    count = 100
    images = torch.full((count, 1, 28, 28), 9, dtype=torch.uint8)
    classes = tuple(chr(0x3B1 + k) for k in range(count))
    sheet = contact_sheet(Dataset(images, torch.arange(count), classes, "many"), columns=3)
    assert sheet.height < 26 * 60


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("cat", "cat"),
        ("A", "A"),
        ("\u03b1", "U+03B1"),
        ("\U0001d49c", "U+1D49C"),
        ("wait\u2026", "wait\u2026"),  # the font has an ellipsis
        ("\u65e5 day", "? day"),
        ("two\nlines", "two?lines"),
    ],
)
def test_names_are_written_as_the_font_can(name, written):
    assert _printable(name, ImageFont.load_default(14)) == written


@pytest.mark.parametrize("wrong", [{"rows": 0}, {"columns": 0}, {"rows": 2.5}])
def test_rows_and_columns_are_checked(wrong):
    data = Dataset(torch.zeros(1, 1, 4, 4, dtype=torch.uint8), torch.tensor([0]), ("a",), "d")
    with pytest.raises(InputError, match=f"{next(iter(wrong))} must be"):
        contact_sheet(data, **wrong)


@pytest.mark.parametrize(
    ("image", "pixels"),
    [
        (torch.tensor([[[0, 200]]], dtype=torch.uint8), [[0, 200]]),
        (torch.tensor([[[0.0, 1.0]], [[0.5, 0.5]]]), [[0, 255]]),  # of two channels the first
        (torch.tensor([[[-1.0, 3.0]]]), [[0, 255]]),
        (torch.tensor([[[7.0, 7.0]]]), [[0, 0]]),
        (torch.tensor([[[1.0]], [[0.0]], [[1.0]], [[0.5]]]), [[[255, 0, 255]]]),
    ],
)
def test_images_of_any_type_can_be_looked_at(image, pixels):
    assert np.asarray(as_picture(image)).tolist() == pixels


def test_a_sheet_of_float_images_in_colour():
    images = torch.rand(2, 3, 8, 8)
    assert contact_sheet(Dataset(images, torch.tensor([0, 1]), ("a", "b"), "d"), columns=1).width > 48
