import pytest
import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from tests.metrics.naive import random_opinion

from nescio.metrics import reliability, wilson_interval
from nescio.plots import ReliabilityDisplay

PREDICTION = random_opinion(200, 3, seed=1)
LABELS = torch.arange(200) % 3


def test_points_are_the_shares_of_right_answers_with_their_intervals():
    axes = Figure().add_subplot()
    display = ReliabilityDisplay.from_predictions(PREDICTION, LABELS, bins=5, ax=axes)
    bins = reliability(PREDICTION, LABELS, 5)
    filled = (bins.count > 0).nonzero().flatten().tolist()
    points, _, (lines,) = display.points_
    assert points.get_ydata().tolist() == pytest.approx([100 * float(bins.accuracy[i]) for i in filled])
    for place, segment in zip(filled, lines.get_segments(), strict=True):
        expected = wilson_interval(float(bins.accuracy[place]), int(bins.count[place]))
        assert segment[:, 1].tolist() == pytest.approx([100 * end for end in expected])
    assert display.counts_ax_ is None
    assert axes.get_xlabel() == "probability of the answer"


def test_a_figure_of_its_own_has_bars_of_the_counts():
    display = ReliabilityDisplay.from_predictions(PREDICTION, LABELS)
    heights = [bar.get_height() for bar in display.counts_ax_.patches]
    assert heights == display.bins.count.tolist()
    assert sum(heights) == 200
    pyplot.close(display.figure_)


def test_two_models_share_one_ideal_and_differ_in_colour_and_marker():
    axes = Figure().add_subplot()
    one = ReliabilityDisplay.from_predictions(PREDICTION, LABELS, name="one", ax=axes)
    two = ReliabilityDisplay.from_predictions(PREDICTION, LABELS, name="two", ax=axes)
    assert axes.get_legend_handles_labels()[1] == ["as it should be", "one", "two"]
    assert one.points_[0].get_color() != two.points_[0].get_color()
    assert one.points_[0].get_marker() != two.points_[0].get_marker()
