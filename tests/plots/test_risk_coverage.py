import pytest
import torch
from matplotlib.figure import Figure
from tests.metrics.naive import random_opinion

from nescio.errors import InputError, NescioError
from nescio.metrics import risk_coverage
from nescio.metrics.calibration import right_answers
from nescio.plots import RiskCoverageDisplay

PREDICTION = random_opinion(50, 3, seed=1)
LABELS = torch.arange(50) % 3
RIGHT = right_answers(PREDICTION, LABELS)


@pytest.mark.parametrize("measure", ["uncertainty", "entropy", "dissonance"])
def test_inputs_are_ordered_by_the_measure_that_is_named(measure):
    axes = Figure().add_subplot()
    display = RiskCoverageDisplay.from_predictions(PREDICTION, LABELS, measure=measure, ax=axes)
    doubt = getattr(PREDICTION, measure)
    expected = risk_coverage(doubt if measure == "uncertainty" else doubt(), RIGHT)
    assert display.line_.get_ydata().tolist() == pytest.approx((100 * expected.risk).tolist())
    assert display.line_.get_xdata()[-1] == 100


def test_where_the_model_stands_by_its_answers_is_marked():
    accepted = PREDICTION.uncertainty < PREDICTION.uncertainty.median()
    axes = Figure().add_subplot()
    display = RiskCoverageDisplay.from_predictions(PREDICTION, LABELS, accepted=accepted, ax=axes)
    coverage, risk = display.working_point
    assert coverage == pytest.approx(float(accepted.double().mean()))
    assert risk == pytest.approx(1 - float(RIGHT[accepted].double().mean()))
    assert axes.lines[1].get_xydata()[0].tolist() == pytest.approx([100 * coverage, 100 * risk])


def test_a_model_that_stands_by_nothing_has_no_mark():
    nothing = torch.zeros(50, dtype=torch.bool)
    axes = Figure().add_subplot()
    display = RiskCoverageDisplay.from_predictions(PREDICTION, LABELS, accepted=nothing, ax=axes)
    assert display.working_point is None
    assert len(axes.lines) == 1


def test_a_second_line_does_not_cut_the_first():
    axes = Figure().add_subplot()
    RiskCoverageDisplay([0.5, 1.0], [0.2, 0.5], name="a").plot(axes)
    RiskCoverageDisplay([0.5, 1.0], [0.0, 0.1], name="b").plot(axes)
    assert axes.get_ylim()[1] == pytest.approx(54)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match=r"accepted must be a bool tensor of shape \(50,\), got bool \(3,\)"):
        RiskCoverageDisplay.from_predictions(PREDICTION, LABELS, accepted=torch.ones(3, dtype=torch.bool))
    with pytest.raises(NescioError, match="boredom"):
        RiskCoverageDisplay.from_predictions(PREDICTION, LABELS, measure="boredom")
