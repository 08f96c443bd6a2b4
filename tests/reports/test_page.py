import re
import sys
from pathlib import Path

import jinja2
import pytest

import nescio
from nescio.errors import MissingExtraError
from nescio.plots import PALETTE
from nescio.reports._page import DARK_PALETTE, page_template, require_extras

SOURCE = Path(nescio.__file__).parent


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_a_missing_extra_is_named(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"^{package} is not installed.*nescio\[demo\]"):
        require_extras()


def test_only_pages_escape_what_they_are_given(tmp_path):
    for name, expected in (("a.html.j2", "&lt;b&gt;"), ("a.md.j2", "<b>")):
        (tmp_path / name).write_text("{{ word }}")
        assert page_template(tmp_path / name).render(word="<b>") == expected


def test_a_name_that_is_not_given_is_an_error(tmp_path):
    (tmp_path / "a.html.j2").write_text("{{ nothing }}")
    with pytest.raises(jinja2.UndefinedError, match="nothing"):
        page_template(tmp_path / "a.html.j2").render()


def test_every_colour_is_there_for_light_and_for_dark(tmp_path):
    (tmp_path / "a.html.j2").write_text('{% include "look.css.j2" %}')
    light, dark = page_template(tmp_path / "a.html.j2").render().split("prefers-color-scheme: dark")
    assert PALETTE.keys() == DARK_PALETTE.keys()
    for name in PALETTE:
        assert f"--{name}: {PALETTE[name]};" in light
        assert f"--{name}: {DARK_PALETTE[name]};" in dark


def luminance(colour):
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("palette", "page"), [(PALETTE, "#f5f7f9"), (DARK_PALETTE, "#1d232a")])
@pytest.mark.parametrize(("name", "least"), [("ink", 7), ("muted", 4.5)])
def test_words_can_be_read_on_panels(palette, page, name, least):
    lightness = sorted([luminance(palette[name]), luminance(page)])
    assert (lightness[1] + 0.05) / (lightness[0] + 0.05) >= least


def test_the_look_stands_in_one_place():
    pages = sorted(SOURCE.rglob("*.html.j2"))
    assert len(pages) >= 2
    for path in pages:
        text = path.read_text()
        assert '{% include "look.css.j2" %}' in text
        assert not re.search(r"--\w+: #|prefers-color-scheme|\nbody \{", text), path
