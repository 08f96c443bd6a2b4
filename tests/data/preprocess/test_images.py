import io

import pytest
import torch
from PIL import Image

from nescio.data import Picture, Row, Text
from nescio.data.preprocess import ImagePreprocess, Preprocess
from nescio.errors import DataError, InputError


def test_bytes_keep_their_zero_and_reach_one():
    images = torch.randint(256, (10, 3, 4, 4), dtype=torch.uint8)
    fitted = Preprocess.fit(images)
    assert fitted == ImagePreprocess((3, 4, 4), (0.0,) * 3, (255.0,) * 3, pixel_range=(0.0, 255.0))
    assert fitted(images).dtype == torch.float32
    torch.testing.assert_close(fitted(images), images.float() / 255)
    assert fitted(images.double()).dtype == torch.float64


def test_images_of_other_numbers_get_the_same_range():
    images = torch.randn(10, 2, 4, 4)
    assert Preprocess.fit(images)(images).abs().max().item() == pytest.approx(1.0)
    assert Preprocess.fit(torch.zeros(2, 1, 4, 4)).scale == (1.0,)


@pytest.mark.parametrize(("white", "is_taken"), [(1.0, True), (255.0, True), (16.0, False), (1000.0, False)])
def test_a_picture_is_brought_to_the_range_that_was_trained_on(white, is_taken):
    """Bytes, of a picture or an array, and numbers like those of training are the same to the network."""
    fitted = Preprocess.fit(white * torch.linspace(0, 1, 12).view(3, 1, 2, 2))
    pixels = torch.tensor([[[0, 51], [204, 255]]], dtype=torch.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels[0].numpy()).save(file, "PNG")
    picture = Picture(file.getvalue(), "p.png")
    if not is_taken:
        with pytest.raises(DataError, match="numbers that are no pixels"):
            fitted.prepare(picture)
        return
    expected = pixels.float() / 255 * white
    torch.testing.assert_close(fitted.prepare(picture).float(), expected)
    torch.testing.assert_close(fitted.prepare(pixels).float(), expected)
    torch.testing.assert_close(fitted(pixels[None]), fitted(expected[None]))
    assert Preprocess.from_dict(fitted.to_dict()) == fitted


def test_images_below_zero_are_no_pixels():
    assert Preprocess.fit(torch.tensor([-0.5, 0.5]).view(2, 1, 1, 1)).white is None


@pytest.mark.parametrize(("scale", "white"), [(1.0, 1.0), (0.9, 1.0), (2.6, 255.0), (255.0, 255.0)])
def test_what_white_was_before_it_was_kept(scale, white):
    kept = ImagePreprocess((1, 2, 2), (0.0,), (scale,)).to_dict()
    del kept["white"]
    assert "white" not in ImagePreprocess((1, 2, 2), (0.0,), (255.0,), (0.0, 255.0)).to_dict()
    assert Preprocess.from_dict(kept).white == white


def wide_picture():
    """Three squares side by side: red, green, blue."""
    picture = Image.new("RGB", (12, 4))
    for number, colour in enumerate([(255, 0, 0), (0, 255, 0), (0, 0, 255)]):
        picture.paste(colour, (4 * number, 0, 4 * number + 4, 4))
    file = io.BytesIO()
    picture.save(file, "PNG")
    return Picture(file.getvalue(), "wide.png")


@pytest.mark.parametrize(
    ("resize", "left", "middle", "top"),
    [
        ("stretch", "red", "green", "green"),  # all of it, three times as narrow
        ("crop", "green", "green", "green"),  # the middle alone
        ("pad", "red", "green", "black"),  # all of it, black above and below
    ],
)
def test_how_a_picture_is_brought_to_the_size(resize, left, middle, top):
    preprocess = ImagePreprocess((3, 6, 6), (0.0,) * 3, (255.0,) * 3, resize=resize)
    pixels = preprocess.prepare(wide_picture())
    assert pixels.shape == (3, 6, 6)
    assert [colour_of(pixels[:, 3, 0]), colour_of(pixels[:, 3, 3])] == [left, middle]
    assert colour_of(pixels[:, 0, 3]) == top


def colour_of(pixel):
    return "black" if pixel.max() < 64 else ("red", "green", "blue")[int(pixel.argmax())]


@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
@pytest.mark.parametrize("size", [(12, 4), (4, 12), (1, 300), (300, 1)])
def test_every_size_becomes_the_one_size(resize, size):
    file = io.BytesIO()
    Image.new("L", size, 200).save(file, "PNG")
    preprocess = ImagePreprocess((1, 8, 8), (0.0,), (255.0,), resize=resize)
    pixels = preprocess.prepare(Picture(file.getvalue(), "a.png"))
    assert pixels.shape == (1, 8, 8)
    assert pixels.unique().tolist() == ([0, 200] if resize == "pad" else [200])


def test_what_is_no_picture_is_refused():
    preprocess = ImagePreprocess((1, 4, 4), (0.0,), (255.0,))
    with pytest.raises(DataError, match="the model takes pictures 1 x 4 x 4, not rows of a table"):
        preprocess.prepare(Row(("1",), None, "a.csv, line 1"))
    with pytest.raises(DataError, match="the model takes pictures 1 x 4 x 4, not texts"):
        preprocess.prepare(Text("hello", "a text"))


def test_settings_that_do_not_fit():
    with pytest.raises(InputError, match="resize must be one of stretch, crop, pad, got 'squeeze'"):
        ImagePreprocess((1, 4, 4), (0.0,), (255.0,), resize="squeeze")
    with pytest.raises(InputError, match=r"input_shape must be \(channels, height, width\)"):
        ImagePreprocess((4,), (0.0,) * 4, (1.0,) * 4)
    with pytest.raises(InputError, match="preprocess is for 2 channels, inputs have 1"):
        ImagePreprocess((1, 4, 4), (0.0,) * 2, (1.0,) * 2)
