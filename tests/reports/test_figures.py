import warnings

import pytest
import torch
from tests.reports.cases import NASTY, corners, trained

from nescio.opinions import Opinion
from nescio.plots import png, svg
from nescio.reports import _figures as figures
from nescio.reports._results import measure


@pytest.fixture(scope="module")
def model():
    return trained(corners(classes=("a", "b", "c", "d")))


def results_of(model, evidence, labels, ood=None):
    return measure(model, Opinion(torch.tensor(evidence)), torch.tensor(labels), ood)


@pytest.fixture(scope="module")
def results(model):
    evidence = [[9.0, 0, 0, 0], [0, 9.0, 0, 0], [0, 0, 9.0, 0], [0, 0, 0, 9.0], [0, 2.0, 0, 0]] * 6
    return results_of(model, evidence, [0, 1, 2, 3, 3] * 6, Opinion(torch.zeros(5, 4)))


def test_everything_there_is_to_draw(results):
    drawn = figures.draw_figures(results, NASTY, most_classes=30)
    assert list(drawn) == ["confusion", "calibration", "risk_coverage", "ood"]
    assert list(figures.draw_figures(results, NASTY, most_classes=3)) == [
        "calibration",
        "risk_coverage",
        "ood",
    ]


def test_without_mistakes_there_is_no_risk_to_draw(model):
    good = results_of(model, [[9.0, 0, 0, 0], [0, 9.0, 0, 0]], [0, 1])
    assert list(figures.draw_figures(good, NASTY, most_classes=3)) == ["calibration"]


def test_the_matrix_counts_and_names_are_text(results):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = figures.draw_figures(results, NASTY, 30)["confusion"]
        drawn = svg(figure, "confusion")
        assert png(figure).startswith(b"\x89PNG")
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == ["6", "6", "6", "6", "6"]
    assert "<script" not in drawn
    assert "&lt;script&gt;aler" in drawn
    assert "a | b * c_d $x_{" in drawn
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert max(len(name) for name in names) <= 18


def test_short_names_are_not_turned(results):
    turned = {}
    for names in (("a", "b", "c", "d"), NASTY):
        figure = figures.draw_figures(results, names, 30)["confusion"]
        turned[names[0]] = figure.axes[0].get_xticklabels()[0].get_rotation()
    assert turned == {"a": 0, NASTY[0]: 90}


def test_calibration_shows_the_share_of_right_answers(results):
    figure = figures.draw_figures(results, NASTY, 30)["calibration"]
    axes, strip = figure.axes
    line = axes.get_lines()[1]
    low, high = sorted(zip(*line.get_data(), strict=True))
    assert low == (pytest.approx(0.5), 0)
    assert high == (pytest.approx(10 / 13), 100)
    assert sorted(patch.get_height() for patch in strip.patches)[-2:] == [6, 24]


def test_risk_ends_at_the_error_of_all(results):
    axes = figures.draw_figures(results, NASTY, 30)["risk_coverage"].axes[0]
    line, point = axes.get_lines()
    assert line.get_xydata()[-1].tolist() == [100, pytest.approx(20)]
    assert point.get_xydata()[0].tolist() == [80, 0]


def test_uncertainty_of_both(results):
    axes = figures.draw_figures(results, NASTY, 30)["ood"].axes[0]
    known, ood = [patch for patch in axes.patches if not patch.get_fill()]
    assert known.get_data().values.sum() == pytest.approx(100)
    assert ood.get_data().values[-1] == pytest.approx(100)
