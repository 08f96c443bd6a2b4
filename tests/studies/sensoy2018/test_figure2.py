import numpy as np
from tests.studies.sensoy2018.lines import has_band, lines
from tests.studies.sensoy2018.made import EMPTY

from nescio.studies.sensoy2018 import _figure2 as figure2


def test_nothing_is_drawn_of_nothing():
    assert figure2.draw(EMPTY) == []


def test_figure2(results):
    (figure,) = figure2.draw(results)
    above, below = figure.picture.axes
    curves = [each["threshold"] for each in results.numbers("digits", "edl", "known")]
    assert len(curves) == 3
    kept = 100 * np.mean([curve["coverage"] for curve in curves], axis=0)
    np.testing.assert_allclose(lines(below)["EDL"], kept)
    accuracy = [[np.nan if a is None else 100 * a for a in curve["accuracy"]] for curve in curves]
    np.testing.assert_allclose(lines(above)["EDL"], np.mean(accuracy, axis=0))
    assert len(figure.rows) == 4 * 101
    for axes in (above, below):
        assert [line.get_marker() for line in axes.lines] == ["o", "*"]
        assert has_band(axes, 0)
        assert has_band(axes, 1)
        assert axes.get_xlim()[1] > 1
