"""Values as sources read them: named in messages, decoded when asked."""

import io

import pytest
from PIL import Image

from nescio.data import Picture, Row
from nescio.errors import DataError


def test_a_picture_from_bytes_and_from_a_file(tmp_path):
    content = io.BytesIO()
    Image.new("L", (6, 4), 9).save(content, "PNG")
    (tmp_path / "a.png").write_bytes(content.getvalue())
    for where in (content.getvalue(), tmp_path / "a.png"):
        picture = Picture(where, "a.png")
        assert (picture.header().grey, picture.header().size) == (True, (4, 6))
        assert picture.pixels(3, (2, 2)).tolist() == [[[9, 9], [9, 9]]] * 3


def test_messages_call_a_picture_by_its_name():
    for ask in (Picture.header, lambda picture: picture.pixels(1, (2, 2))):
        with pytest.raises(DataError, match=r"^sent\.png is not a PNG, JPEG, BMP or WebP picture$"):
            ask(Picture(b"text", "sent.png"))


def test_a_row_is_plain_data():
    assert Row(("1", "2"), None, "t.csv, line 1") == Row(("1", "2"), None, "t.csv, line 1")
