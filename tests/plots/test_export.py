import io
import re

import pytest
from matplotlib.figure import Figure
from PIL import Image

from nescio.plots import PALETTE, png, style, svg


@pytest.fixture
def figure():
    with style(dark=False):
        made = Figure(figsize=(3, 2))
        axes = made.add_subplot()
        axes.plot([0, 1], [0, 1], color=PALETTE["green"], label="a line")
        axes.legend()
        return made


def test_colours_come_from_the_page(figure):
    text = svg(figure, "one")
    assert "var(--green, #009e73)" in text
    for colour in PALETTE.values():
        assert not re.search(rf"(?<!, ){colour}", text)


def test_identifiers_are_the_figures_own(figure):
    one, other = svg(figure, "one"), svg(figure, "other")
    found = [set(re.findall(r'\bid="([^"]+)"', text)) for text in (one, other)]
    assert found[0]
    assert not found[0] & found[1]
    for reference in re.findall(r"url\(#([^)]+)\)", one):
        assert reference in found[0]


def test_it_is_one_element_without_dates_or_metadata(figure):
    text = svg(figure, "one")
    assert text.startswith("<svg viewBox=")
    assert "<metadata" not in text
    assert text == svg(figure, "one")


@pytest.mark.parametrize(("dark", "page"), [(False, (255, 255, 255)), (True, (0x14, 0x18, 0x1D))])
def test_a_png_lies_on_the_colour_of_its_page(figure, dark, page):
    with style(dark=dark):
        content = png(figure, dpi=50)
        assert content == png(figure, dpi=50)
    with Image.open(io.BytesIO(content)) as shown:
        assert shown.size == (150, 100)
        assert shown.convert("RGB").getpixel((0, 0)) == page
