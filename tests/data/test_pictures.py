import io

import numpy as np
import pytest
import torch
from PIL import Image
from tests.data.made import huge_png, raw_png

from nescio.data._pictures import Header, open_picture, read_header, read_picture
from nescio.errors import DataError


def encoded(pixels, kind="PNG", **options):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **options)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "BMP", "JPEG", "WEBP"])
def test_colour_of_every_format(kind):
    pixels = np.zeros((16, 12, 3), np.uint8)
    pixels[:, :, 1] = 200
    read = read_picture(encoded(pixels, kind), channels=3, size=(16, 12))
    assert read.shape == (3, 16, 12)
    assert torch.allclose(read.float().mean((1, 2)), torch.tensor([0.0, 200, 0]), atol=6)


def test_grey_is_kept_to_the_bit():
    pixels = np.arange(30, dtype=np.uint8).reshape(5, 6)
    assert torch.equal(read_picture(encoded(pixels), 1, (5, 6))[0], torch.from_numpy(pixels))


def test_sixteen_bits_keep_their_range():
    pixels = np.array([[0, 257 * 100, 65535]], np.uint16)
    assert read_picture(encoded(pixels), 1, (1, 3)).flatten().tolist() == [0, 100, 255]


def test_transparency_is_shown_over_white():
    pixels = np.zeros((2, 2, 4), np.uint8)
    pixels[0, :, 3] = 255
    assert read_picture(encoded(pixels), 1, (2, 2))[0].tolist() == [[0, 0], [255, 255]]


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_orientation_that_the_camera_noted(kind):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    pixels = np.zeros((8, 16), np.uint8)
    pixels[:, 8:] = 255  # right half light: becomes the lower half
    data = encoded(pixels, kind, exif=exif)
    assert read_header(data) == Header(grey=True, size=(16, 8))
    turned = read_picture(data, 1, (16, 8))[0].float()
    assert turned[:8].mean() == 0
    assert turned[8:].mean() == 255


def test_damaged_notes_of_a_camera_are_no_damage_to_the_picture():
    data = encoded(np.full((4, 6), 9, np.uint8), "PNG", exif=b"Exif\0\0garbage")
    assert read_header(data).size == (4, 6)
    assert read_picture(data, 1, (4, 6)).unique().tolist() == [9]


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "WEBP"])
def test_a_header_is_read_without_decoding_pixels(kind, monkeypatch):
    data = encoded(np.zeros((6, 4, 3), np.uint8), kind)

    def decode(self):
        raise AssertionError("pixels were decoded")

    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", decode)
    assert read_header(data) == Header(grey=False, size=(6, 4))


def test_stretched_to_the_size():
    assert read_picture(encoded(np.full((90, 40), 77, np.uint8)), 1, (28, 28)).float().mean() == 77


def test_fifty_thousand_pixels_a_side_is_refused_unread():
    with pytest.raises(DataError, match="pixels"):
        open_picture(huge_png())


def test_just_beyond_the_limit_is_refused():
    with pytest.raises(DataError, match="8001 x 8000 pixels; at most 64,000,000"):
        open_picture(huge_png(8001, 8000))


@pytest.mark.parametrize("data", [b"", b"just text", b"GIF89a" + bytes(20)])
def test_what_is_no_picture(data):
    with pytest.raises(DataError, match="is not a PNG, JPEG, BMP or WebP picture"):
        open_picture(data)


def test_a_picture_cut_short(tmp_path):
    whole = encoded(np.random.default_rng(0).integers(256, size=(40, 40), dtype=np.uint8))
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"cut\.png is damaged"):
        read_picture(tmp_path / "cut.png", 1, (40, 40))


@pytest.mark.parametrize("packed", [b"", b"no zlib stream", b"x\x9c" + bytes(50)])
def test_good_checksums_around_bad_pixels(packed):
    data = raw_png(4, 4, 0, packed)
    assert read_header(data) == Header(grey=True, size=(4, 4))
    with pytest.raises(DataError, match="the picture is damaged"):
        read_picture(data, 1, (4, 4))
