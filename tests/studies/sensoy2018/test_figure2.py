import numpy as np
import pytest
from tests.studies.sensoy2018.lines import has_band, lines
from tests.studies.sensoy2018.made import EMPTY, result, results_of

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


def test_few_images_have_no_band_and_the_panel_reaches_from_the_lowest_mean_to_the_highest():
    threshold = {
        "threshold": [0.0, 0.25, 0.5, 0.75, 1.0],
        "coverage": [0.0, 0.0002, 0.0099, 0.01, 1.0],
        "accuracy": [None, 1.0, 1.0, 0.99, 0.9],
    }
    made = results_of([result("edl", known={"images": 10_000, "threshold": threshold})])
    (figure,) = figure2.draw(made)
    above = figure.picture.axes[0]
    (path,) = above.collections[0].get_paths()
    assert path.vertices[:, 0].min() == 0.75  # 100 images are answered there, 99 before
    assert above.get_ylim() == pytest.approx((90 - 0.8, 100 + 0.8))
    assert "none where fewer than 100 images are answered" in figure.caption


def test_a_panel_of_one_accuracy_has_some_height():
    threshold = {"threshold": [0.0, 1.0], "coverage": [1.0, 1.0], "accuracy": [0.9, 0.9]}
    (figure,) = figure2.draw(results_of([result("edl", known={"images": 200, "threshold": threshold})]))
    assert figure.picture.axes[0].get_ylim() == pytest.approx((89, 91))
