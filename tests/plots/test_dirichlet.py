import numpy as np
import pytest
import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from scipy.stats import dirichlet

from nescio import Opinion
from nescio.errors import InputError
from nescio.plots import DirichletDisplay


def test_the_density_is_that_of_scipy():
    display = DirichletDisplay([7.0, 2.0, 1.5])
    points = np.array([[0.7, 0.2, 0.1], [0.2, 0.3, 0.5]])
    expected = [dirichlet.pdf(point, [7.0, 2.0, 1.5]) for point in points]
    np.testing.assert_allclose(display.density(points), expected)


def test_the_image_holds_all_the_mass_where_it_belongs():
    display = DirichletDisplay([7.0, 2.0, 1.5])
    image = display._density_image()
    area = 3**0.5 / 2 / image.size  # of a pixel; the density is one over (p1, p2), of area 1/2
    scale = 0.5 / (3**0.5 / 4)
    assert image.sum() * area * scale == pytest.approx(1, abs=0.01)
    row, column = np.unravel_index(image.argmax(), image.shape)
    mode = (np.array([6.0, 1.0, 0.5]) / 7.5) @ np.array([[0, 0], [1, 0], [0.5, 3**0.5 / 2]])
    found = (column + 0.5) / 300, (row + 0.5) / 300 * 3**0.5 / 2
    np.testing.assert_allclose(found, mode, atol=0.01)


def test_where_nothing_is_known_it_is_evenly_pale_and_the_mark_in_the_middle():
    display = DirichletDisplay.from_opinion(Opinion(torch.zeros(3)), ax=Figure().add_subplot())
    shades = np.asarray(display.image_.get_array())
    assert set(np.round(shades[shades > 0], 9)) == {0.2}
    np.testing.assert_allclose(display.mark_.get_xydata()[0], [0.5, 3**0.5 / 6])
    assert "u = 1.00" in [text.get_text() for text in display.ax_.texts]


def test_corners_are_named_and_other_displays_leave_the_legend_alone():
    display = DirichletDisplay.from_opinion(Opinion(torch.ones(3)), classes=("a", "$b$", "c"))
    assert {text.get_text() for text in display.ax_.texts} >= {"a", "$b$", "c"}
    assert display.ax_.get_legend() is None
    display.figure_.draw_without_rendering()
    pyplot.close(display.figure_)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="opinion must be one Opinion on three classes"):
        DirichletDisplay.from_opinion(Opinion(torch.ones(4)))
    with pytest.raises(InputError, match=r"alpha must be three numbers above 0, got \[1.0, 0.0, 1.0\]"):
        DirichletDisplay([1.0, 0.0, 1.0])
    with pytest.raises(InputError, match="classes must be the names of 3 classes, got 2"):
        DirichletDisplay([1.0, 1.0, 1.0], classes=("a", "b"))
