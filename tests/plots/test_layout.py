import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

from nescio import plots
from nescio.plots._layout import drawing


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


def test_axes_have_one_size_whatever_stands_around_them():
    sizes = []
    for rows, gap in ((0, 0.0), (2, 0.0), (1, 0.7)):
        figure, axes = plots.panel(rows, gap)
        place = axes.get_position()
        sizes.append((place.width * figure.get_figwidth(), place.height * figure.get_figheight()))
    np.testing.assert_allclose(sizes, [sizes[0]] * 3)


def test_only_figures_for_pyplot_are_known_to_it():
    plots.panel()
    assert pyplot.get_fignums() == []
    plots.panel(in_pyplot=True)
    assert len(pyplot.get_fignums()) == 1


def test_one_legend_for_all_panels_above_them():
    figure, grid = plots.panels(2)
    for axes in grid[0]:
        axes.plot([0, 1], label="same")
    grid[0][1].plot([1, 0], label="other")
    height = figure.get_figheight()
    plots.add_legend(figure)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["same", "other"]
    assert figure.get_figheight() > height


def test_no_legend_of_nothing():
    figure, axes = plots.panels(1)
    plots.add_legend(figure)
    plots.add_heading(figure, axes[0, 0], "Nothing")
    assert figure.legends == []
    assert axes[0, 0].get_legend() is None


def test_a_band_has_the_colour_of_its_line():
    axes = Figure().add_subplot()
    line = plots.draw_band(axes, [0, 1], [1, 2], ([0, 1], [2, 3]), {"color": "#ff0000", "label": "a"})
    assert line.get_color() == "#ff0000"
    assert tuple(axes.collections[0].get_facecolor()[0][:3]) == (1, 0, 0)
    plots.draw_band(axes, [0, 1], [1, 2])
    assert len(axes.collections) == 1


def test_given_axes_get_no_title_and_no_legend():
    axes = Figure().add_subplot()
    with drawing(axes, "A title") as given:
        assert given is axes
        given.plot([0, 1], label="a line")
    assert axes.get_legend() is None
    assert axes.figure.texts == []
    assert pyplot.get_fignums() == []


def test_a_figure_of_its_own_has_both_and_is_shown():
    with drawing(None, "A title") as axes:
        axes.plot([0, 1], label="a line")
    assert [text.get_text() for text in axes.figure.texts] == ["A title"]
    assert axes.get_legend().texts[0].get_text() == "a line"
    assert pyplot.gcf() is axes.figure
