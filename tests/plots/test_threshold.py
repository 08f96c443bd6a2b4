import pytest
import torch
from matplotlib.figure import Figure
from tests.metrics.naive import random_opinion

from nescio.errors import InputError
from nescio.metrics import accuracy_against_threshold
from nescio.plots import ThresholdDisplay

PREDICTION = random_opinion(50, 3, seed=1)
LABELS = torch.arange(50) % 3


@pytest.mark.parametrize("curve", ["accuracy", "coverage"])
def test_it_draws_what_was_measured_in_percent(curve):
    axes = Figure().add_subplot()
    display = ThresholdDisplay.from_predictions(PREDICTION, LABELS, curve=curve, ax=axes)
    expected = getattr(accuracy_against_threshold(PREDICTION, LABELS), curve)
    torch.testing.assert_close(
        torch.as_tensor(display.line_.get_ydata()), 100 * expected.double(), equal_nan=True
    )
    assert axes.get_ylabel().endswith("%")
    assert axes.get_xlim()[1] > 1


def test_coverage_needs_no_labels_and_accuracy_does():
    axes = Figure().add_subplot()
    with_labels = ThresholdDisplay.from_predictions(PREDICTION, LABELS, curve="coverage", ax=axes)
    without = ThresholdDisplay.from_predictions(PREDICTION, curve="coverage", ax=axes)
    assert without.values.tolist() == with_labels.values.tolist()
    with pytest.raises(InputError, match="labels must be given for the accuracy, got None"):
        ThresholdDisplay.from_predictions(PREDICTION, ax=axes)


def test_a_band_is_in_percent_too():
    axes = Figure().add_subplot()
    ThresholdDisplay([0.0, 1.0], [0.5, 0.6], band=([0.4, 0.5], [0.6, 0.7])).plot(axes)
    heights = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (pytest.approx(40), pytest.approx(70))


def test_another_curve_is_refused():
    with pytest.raises(InputError, match="curve must be accuracy or coverage, got 'risk'"):
        ThresholdDisplay([0.0], [0.5], curve="risk")
