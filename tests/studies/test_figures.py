import csv
import io
import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from nescio.metrics import wilson_interval
from nescio.plots import panels, style
from nescio.studies._figures import Curve, Figure, to_csv, write_figure


def test_a_share_of_one_seed_has_a_band_over_its_images():
    curve = Curve([0.0, 1.0], [[0.5, 0.9]], is_share=True, images=[100, 50])
    means, (lows, highs) = curve.line(scale=100.0)
    np.testing.assert_allclose(means, [50, 90])
    expected = 100 * np.array([wilson_interval(0.5, 100), wilson_interval(0.9, 50)])
    np.testing.assert_allclose(np.stack([lows, highs], axis=1), expected)


def test_a_point_that_a_seed_lacks_is_not_drawn():
    curve = Curve([0.0, 1.0, 2.0], [[None, 0.2, 0.4], [0.1, 0.4, 0.6], [0.1, 0.3, 0.5]])
    first, second, third = curve.estimates()
    assert first is None
    assert second.mean == pytest.approx(0.3)
    assert third.interval.low < 0.5 < third.interval.high
    means, (lows, highs) = curve.line()
    assert math.isnan(means[0])
    assert means[1:] == [second.mean, third.mean]
    assert (lows[2], highs[2]) == (third.interval.low, third.interval.high)


def test_what_is_no_share_has_no_band_of_one_seed():
    _, band = Curve([0.0, 1.0], [[0.2, 0.3]]).line()
    assert np.isnan(band).all()


def test_files_are_whole_and_the_same_again(tmp_path):
    rows = [{"a": 1, "b": 0.5}, {"a": 2, "c": None}]
    for folder in ("first", "second"):
        with style():
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
