import csv
import io
import math
import xml.etree.ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure as Picture
from PIL import Image

from nescio.metrics import wilson_interval
from nescio.plots import STYLE
from nescio.studies._figures import Curve, Figure, add_legend, draw_curve, panels, to_csv, write_figure

STYLE_OF_A_LINE = {"color": "#000000", "label": "a line"}


def band(axes):
    """Lowest and highest point of the band at each place."""
    (collection,) = axes.collections
    found = {}
    for path in collection.get_paths():
        for x, y in path.vertices:
            low, high = found.get(x, (y, y))
            found[x] = min(low, y), max(high, y)
    return found


def test_a_share_of_one_seed_has_a_band_over_its_images():
    axes = Picture().subplots()
    curve = Curve([0.0, 1.0], [[0.5, 0.9]], is_share=True, images=[100, 50])
    draw_curve(axes, curve, STYLE_OF_A_LINE)
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [50, 90])
    expected = 100 * np.array([wilson_interval(0.5, 100), wilson_interval(0.9, 50)])
    np.testing.assert_allclose([band(axes)[0.0], band(axes)[1.0]], expected)


def test_a_point_that_a_seed_lacks_is_not_drawn():
    curve = Curve([0.0, 1.0, 2.0], [[None, 0.2, 0.4], [0.1, 0.4, 0.6], [0.1, 0.3, 0.5]])
    first, second, third = curve.estimates()
    assert first is None
    assert second.mean == pytest.approx(0.3)
    assert third.interval.low < 0.5 < third.interval.high
    axes = Picture().subplots()
    draw_curve(axes, curve, STYLE_OF_A_LINE, scale=1.0)
    assert math.isnan(axes.lines[0].get_ydata()[0])


def test_what_is_no_share_has_no_band_of_one_seed():
    axes = Picture().subplots()
    draw_curve(axes, Curve([0.0, 1.0], [[0.2, 0.3]]), STYLE_OF_A_LINE)
    assert axes.collections[0].get_paths() == []


def test_one_legend_for_all_panels_above_them():
    picture, grid = panels(2)
    for axes in grid[0]:
        axes.plot([0, 1], label="same")
    grid[0][1].plot([1, 0], label="other")
    height = picture.get_figheight()
    add_legend(picture)
    assert [text.get_text() for text in picture.legends[0].get_texts()] == ["same", "other"]
    assert picture.get_figheight() > height


def test_no_legend_of_nothing():
    picture, _ = panels(1)
    add_legend(picture)
    assert picture.legends == []


def test_files_are_whole_and_the_same_again(tmp_path):
    rows = [{"a": 1, "b": 0.5}, {"a": 2, "c": None}]
    for folder in ("first", "second"):
        with mpl.rc_context(STYLE):
            picture, grid = panels(2)
            grid[0][0].plot([0, 1])
        write_figure(Figure("one", "One", "A line.", picture, rows), tmp_path / folder)
    for kind in ("png", "svg", "csv"):
        first, second = ((tmp_path / folder / f"one.{kind}").read_bytes() for folder in ("first", "second"))
        assert first == second
    with Image.open(tmp_path / "first" / "one.png") as shown:
        assert min(shown.size) > 500
    ET.fromstring((tmp_path / "first" / "one.svg").read_text())
    assert (tmp_path / "first" / "one.csv").read_text() == "a,b,c\n1,0.5,\n2,,\n"


def test_csv_of_nothing():
    assert list(csv.DictReader(io.StringIO(to_csv([])))) == []
