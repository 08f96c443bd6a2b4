import math

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from nescio import Categorical
from nescio.errors import InputError
from nescio.plots import EntropyCDFDisplay

PREDICTION = Categorical(torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.6, 0.4], [0.5, 0.5]]))


def test_shares_count_the_inputs():
    display = EntropyCDFDisplay.from_predictions(PREDICTION, name="softmax", ax=Figure().add_subplot())
    at, share = (np.asarray(values) for values in display.line_.get_data())
    entropy = PREDICTION.entropy().double().numpy()
    for place in (0, 40, 120, 200):
        assert share[place] == np.mean(entropy <= at[place] + 1e-6)
    assert display.ax_.get_xlim() == (0, pytest.approx(math.log(2)))
    assert display.ax_.get_xlabel() == "entropy, 0 to ln 2"
    assert display.line_.get_label() == "softmax"


def test_normalized_goes_from_0_to_1_and_two_lines_differ():
    axes = Figure().add_subplot()
    one = EntropyCDFDisplay.from_predictions(PREDICTION, name="a", normalized=True, ax=axes)
    two = EntropyCDFDisplay.from_predictions(PREDICTION, name="b", normalized=True, ax=axes)
    assert axes.get_xlim() == (0, 1)
    assert one.line_.get_xdata()[-1] == 1
    assert one.line_.get_color() != two.line_.get_color()
    assert one.line_.get_linestyle() != two.line_.get_linestyle()


def test_a_band_is_drawn_where_it_is_given():
    axes = Figure().add_subplot()
    EntropyCDFDisplay([0, 0.7], [0, 1], num_classes=2, band=([0, 0.9], [0.1, 1])).plot(axes)
    assert len(axes.collections) == 1


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="num_classes must be a whole number from 2 on, got 1"):
        EntropyCDFDisplay([0], [1], num_classes=1)
    with pytest.raises(InputError, match="must be an Opinion or a Categorical"):
        EntropyCDFDisplay.from_predictions(torch.rand(3, 2))
