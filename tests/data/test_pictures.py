import io
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from PIL import Image, ImageFile
from tests.data.made import huge_png, raw_png

from nescio.data import _pictures
from nescio.data._pictures import (
    Header,
    decode_picture,
    decode_some,
    open_picture,
    read_header,
    read_picture,
)
from nescio.errors import DataError, InputError


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


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "I;16", "CMYK"])
def test_a_large_picture_is_flattened_some_rows_at_a_time(mode, monkeypatch):
    pixels = np.random.default_rng(0).integers(0, 256, (70, 9, 4), dtype=np.uint8)
    if mode == "I;16":
        picture = Image.fromarray(pixels[..., :2].copy().view(np.uint16)[..., 0])
    else:
        picture = Image.fromarray(pixels, "RGBA" if mode != "CMYK" else "CMYK").convert(mode)
    if mode == "P":
        picture.info["transparency"] = 3
    whole = _pictures._flatten(picture, "RGB")
    monkeypatch.setattr(_pictures, "STRIP_PIXELS", 100)
    assert np.array_equal(np.asarray(_pictures._flatten(picture, "RGB")), np.asarray(whole))


def test_a_small_file_of_many_pixels_takes_three_times_its_pixels_at_most():
    # In a process of its own, as the most memory that one ever took is known.
    script = """
import io, resource, sys
from PIL import Image
from nescio.data._pictures import decode_picture
unit = 1 if sys.platform == "darwin" else 1024
def taken():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
out = io.BytesIO()
Image.new("RGBA", (5000, 4000), (1, 2, 3, 4)).save(out, "PNG")  # 80 MB once it is decoded
before = taken()
decode_picture(out.getvalue(), 3, (8, 8))
print((taken() - before) / 80e6)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(ran.stdout) < 2.5  # beyond the one that was there to make the file


def test_warnings_of_pillow_stay_inside():
    palette = Image.new("P", (4, 4))
    palette.info["transparency"] = bytes(range(256))
    out = io.BytesIO()
    palette.save(out, "PNG", transparency=bytes(range(256)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert decode_picture(out.getvalue(), 1, (4, 4)).shape == (1, 4, 4)


def test_a_picture_cut_short(tmp_path):
    whole = encoded(np.random.default_rng(0).integers(256, size=(40, 40), dtype=np.uint8))
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"cut\.png is damaged"):
        read_picture(tmp_path / "cut.png", 1, (40, 40))


@pytest.mark.parametrize(("kind", "kept"), [("JPEG", 200), ("PNG", 20), ("WEBP", 20)])
def test_a_picture_that_is_cut_within_its_header(kind, kept, tmp_path):
    whole = encoded(np.random.default_rng(0).integers(256, size=(40, 40), dtype=np.uint8), kind)
    (tmp_path / "cut.bin").write_bytes(whole[:kept])
    for source, name in ((whole[:kept], "the picture"), (tmp_path / "cut.bin", "cut.bin")):
        with pytest.raises(DataError, match=f"{name} is damaged: its header is cut off or can't be read"):
            open_picture(source)
    with pytest.raises(DataError, match=r"gone\.jpg is not a PNG"):
        open_picture(tmp_path / "gone.jpg")


@pytest.mark.parametrize("packed", [b"", b"no zlib stream", b"x\x9c" + bytes(50)])
def test_good_checksums_around_bad_pixels(packed):
    data = raw_png(4, 4, 0, packed)
    assert read_header(data) == Header(grey=True, size=(4, 4))
    with pytest.raises(DataError, match="the picture is damaged"):
        read_picture(data, 1, (4, 4))


def halves(height, width):
    """Red on the left, blue on the right."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, : width // 2, 0] = 255
    pixels[:, width // 2 :, 2] = 255
    return pixels


def test_crop_takes_the_middle_in_proportion():
    pixels = halves(20, 60)
    pixels[:, :20] = pixels[:, 40:] = (0, 255, 0)
    read = read_picture(encoded(pixels), 3, (10, 10), resize="crop")
    assert read[1, :, 1:9].max() == 0  # nothing of the green sides but what antialiasing takes of the next
    assert read[0, :, 1:4].min() == 255
    assert read[2, :, 6:9].min() == 255


def test_pad_keeps_all_of_it_between_black():
    read = read_picture(encoded(np.full((20, 40), 200, np.uint8)), 1, (16, 16), resize="pad")[0]
    assert read[:4].max() == 0
    assert read[12:].max() == 0
    assert read[4:12].min() == 200


@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
def test_a_picture_of_the_size_asked_for_stays_as_it_is(resize):
    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, 3), dtype=np.uint8)
    read = read_picture(encoded(pixels), 3, (9, 7), resize=resize)
    assert np.array_equal(read.permute(1, 2, 0).numpy(), pixels)


@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
def test_fine_detail_is_averaged_not_skipped(resize):
    """Antialiased: black and white columns of one pixel become grey, not stripes."""
    pixels = np.zeros((64, 64), np.uint8)
    pixels[:, ::2] = 255
    read = read_picture(encoded(pixels), 1, (8, 8), resize=resize).float()
    assert (read - 127.5).abs().max() < 30


@pytest.mark.parametrize("resize", ["crop", "pad"])
@pytest.mark.parametrize("shape", [(1, 4000), (4000, 1)])
def test_a_thin_line_of_a_picture(resize, shape):
    read = read_picture(encoded(np.full(shape, 50, np.uint8)), 1, (32, 32), resize=resize)
    assert read.shape == (1, 32, 32)
    assert read.max() == 50


def test_an_unknown_way_to_resize():
    with pytest.raises(InputError, match="resize must be one of stretch, crop, pad, got 'zoom'"):
        read_picture(encoded(np.zeros((4, 4), np.uint8)), 1, (2, 2), resize="zoom")


@pytest.mark.parametrize("resize", ["crop", "pad"])
def test_a_large_jpeg_is_decoded_at_a_lower_resolution_to_the_same_picture(resize, monkeypatch):
    smooth = np.linspace(0, 255, 1024).astype(np.uint8)
    pixels = np.stack([np.tile(smooth, (512, 1))] * 3, 2)
    data = encoded(pixels, "JPEG", quality=95)
    decoded_at = []
    real = ImageFile.ImageFile.load

    def load(self):
        decoded_at.append(self.size)
        return real(self)

    monkeypatch.setattr(ImageFile.ImageFile, "load", load)
    read = read_picture(data, 3, (32, 32), resize=resize).float()
    exact = read_picture(encoded(pixels), 3, (32, 32), resize=resize).float()
    assert decoded_at[0] == (256, 128)
    assert (read - exact).abs().max() <= 3


def test_stretched_jpegs_keep_their_bits(monkeypatch):
    """Models were trained on them."""
    pixels = np.random.default_rng(0).integers(0, 256, (512, 512, 3), dtype=np.uint8)
    data = encoded(pixels, "JPEG")
    whole = Image.open(io.BytesIO(data)).resize((32, 32), Image.Resampling.BILINEAR, reducing_gap=3)
    assert np.array_equal(read_picture(data, 3, (32, 32)).permute(1, 2, 0).numpy(), np.asarray(whole))


@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
def test_turned_large_and_cropped(resize):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise: left becomes top
    data = encoded(halves(800, 800), "JPEG", exif=exif, quality=95)
    read = read_picture(data, 3, (32, 32), resize=resize).float()
    assert read[0, :14].min() > 230
    assert read[2, 18:].min() > 230


@pytest.mark.parametrize("resize", ["stretch", "crop"])
def test_four_inks_become_three_colours(resize):
    """CMYK, as printers save it."""
    out = io.BytesIO()
    Image.new("CMYK", (400, 300), (0, 255, 255, 0)).save(out, "JPEG", quality=95)  # magenta and yellow: red
    assert not read_header(out.getvalue()).grey
    colour = read_picture(out.getvalue(), 3, (16, 16), resize=resize).float().mean((1, 2))
    assert colour[0] > 200
    assert colour[1:].max() < 60


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_of_an_animation_the_first_frame(kind):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    out = io.BytesIO()
    frames[0].save(out, kind, save_all=True, append_images=frames[1:], duration=100, lossless=True)
    with open_picture(out.getvalue()) as picture:
        assert picture.n_frames == 2
    assert read_picture(out.getvalue(), 3, (8, 8)).float().mean((1, 2)).tolist() == [255, 0, 0]


@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
def test_sixteen_bits_of_every_size(resize):
    pixels = np.full((60, 40), 257 * 100, np.uint16)
    read = read_picture(encoded(pixels), 1, (20, 20), resize=resize)
    assert read[0, 10, 10] == 100


def test_several_at_once_and_the_reason_for_one_that_is_broken(tmp_path):
    (tmp_path / "a.png").write_bytes(encoded(np.full((4, 4), 5, np.uint8)))
    (tmp_path / "b.png").write_bytes(b"no picture")
    (tmp_path / "c.png").write_bytes(huge_png())
    read, broken, huge = decode_some([tmp_path / f"{name}.png" for name in "abc"], 1, (4, 4))
    assert read.tolist() == [[[5] * 4] * 4]
    assert broken == "b.png is not a PNG, JPEG, BMP or WebP picture"
    assert "pixels" in huge
