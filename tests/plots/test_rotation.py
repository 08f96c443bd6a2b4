import numpy as np
import pytest
import torch
from matplotlib import pyplot
from matplotlib.figure import Figure

from nescio import Categorical, Opinion
from nescio.errors import InputError
from nescio.plots import RotationDisplay
from nescio.plots._rotation import probable_classes

ANGLES = list(range(0, 181, 10))
OPINION = Opinion(torch.rand(19, 4, generator=torch.Generator().manual_seed(0)) * 9)


def test_probabilities_and_the_uncertainty_are_drawn_over_the_angles():
    axes = Figure().add_subplot()
    display = RotationDisplay.from_predictions(OPINION, ANGLES, classes="abcd", truth=2, ax=axes)
    assert next(iter(display.lines_)) == 2
    np.testing.assert_allclose(display.lines_[2].get_ydata(), OPINION.probabilities[:, 2])
    assert display.lines_[2].get_label() == "c"
    doubt = axes.lines[-1]
    assert doubt.get_label() == "uncertainty"
    np.testing.assert_allclose(doubt.get_ydata(), OPINION.uncertainty)
    assert axes.get_xlabel() == "turned by, degrees"


def test_softmax_has_no_doubt_to_draw():
    axes = Figure().add_subplot()
    RotationDisplay.from_predictions(Categorical(OPINION.probabilities), ANGLES, ax=axes)
    assert "uncertainty" not in axes.get_legend_handles_labels()[1]


def test_the_pictures_stand_below_their_angles():
    images = torch.rand(19, 1, 28, 28)
    display = RotationDisplay.from_predictions(OPINION, ANGLES, images=images)
    (strip,) = display.strip_ax_.images
    assert strip.get_array().shape == (28, 280)
    assert np.array_equal(strip.get_array()[:, 28:56], images[2, 0].numpy())
    assert tuple(strip.get_extent()) == (-10, 190, 0, 1)
    assert display.ax_.get_xlim() == display.strip_ax_.get_xlim() == (-10, 190)
    pyplot.close(display.figure_)


def test_the_true_class_and_what_is_probable_are_worth_drawing():
    assert probable_classes([[[0.1, 0.05, 0.85], [0.15, 0.05, 0.8]]], truth=1) == [1, 2]
    assert probable_classes([[[0.1, 0.9, 0.0]], [[0.3, 0.1, 0.6]]]) == [1, 2, 0]
    assert len(probable_classes([np.eye(9)])) == 6


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="probabilities must be given for each of 3 angles, got 19"):
        RotationDisplay.from_predictions(OPINION, [0, 10, 20])
    with pytest.raises(InputError, match="degrees must be two angles or more"):
        RotationDisplay([0], [[0.5, 0.5]])
    with pytest.raises(InputError, match=r"drawn must be 6 or fewer of the classes 0 to 3, got \[4\]"):
        RotationDisplay(ANGLES, OPINION.probabilities).plot(drawn=[4])
